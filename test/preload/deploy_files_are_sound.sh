#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: what scripts/deploy offers can be used as it is: its YAML is YAML with the parts that the tools look for, every
# path in it is served, every setting is one, and whoever needs the token's file gets it.
. test/lib.sh
need curl python3
cd scripts/deploy || fail "no scripts/deploy"
PYTHON=/usr/bin/python3
if "$PYTHON" -c 'import yaml' 2>/dev/null; then
	"$PYTHON" - <<'EOP' || fail "a file does not say what it should"
import yaml

def one(name):
    with open(name, encoding="utf-8") as file:
        return yaml.safe_load(file)

deployment = one("deployment.yaml")["spec"]["template"]["spec"]
container = deployment["containers"][0]
environment = {e["name"]: e["value"] for e in container["env"]}
mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
assert set(mounts) == {v["name"] for v in deployment["volumes"]}
assert environment["LD_PRELOAD"].startswith(mounts["pprofagent"] + "/")
assert environment["PPROF_TOKEN_FILE"].startswith(mounts["pprofagent-token"] + "/")
assert environment["PPROF_ADDR"].split(":")[1] in [str(p["containerPort"]) for p in container["ports"]]
secret, = (v["secret"] for v in deployment["volumes"] if "secret" in v)
assert secret["defaultMode"] & 0o27 == 0 and deployment["securityContext"]["fsGroup"]  # else it lets nobody in
assert deployment["initContainers"][0]["volumeMounts"][0]["name"] == "pprofagent"

config = one("subscription.yaml")["spec"]["config"]
environment = {e["name"]: e["value"] for e in config["env"]}
assert environment[environment["PPROF_ADDR_VAR"]]
assert [m["name"] for m in config["volumeMounts"]] == [v["name"] for v in config["volumes"]]

jobs = one("parca.yaml")["scrape_configs"]
assert len({job["job_name"] for job in jobs}) == len(jobs) == 2
assert all(p["path"].startswith("/debug/") and p["enabled"] is True
           for p in jobs[0]["profiling_config"]["pprof_config"].values())

services = one("compose.yaml")["services"]
assert set(services["alloy"]["depends_on"]) < set(services)
EOP
else
	echo "no python3-yaml: the YAML is not read"
fi
for c in '{}' '[]' '()'; do
	open=$(tr -cd "${c:0:1}" <alloy.alloy | wc -c) close=$(tr -cd "${c:1:1}" <alloy.alloy | wc -c)
	[ "$open" = "$close" ] || fail "alloy.alloy has $open of ${c:0:1} and $close of ${c:1:1}"
done
for name in $(grep -ohE 'PPROF_[A-Z_]+[A-Z]' ./* | sort -u); do
	grep -q "^| \`$name\` |" ../../README.md || fail "$name is no setting"
done
cd ../..
start "$VICTIMS/idle"
[ -n "$ADDR" ] || fail "the agent told no address: $(cat "$TMP/err")"
# Those of the files, and Alloy's and Parca's defaults for what is switched on without a path.
for path in $(grep -ohE '/debug/[a-z_/]+' scripts/deploy/*.{yaml,alloy} | sort -u) /debug/fgprof \
	/debug/pprof/{profile,allocs,block,mutex,goroutine,delta_heap,delta_block,delta_mutex}; do
	status=$(fetch "$path" -I -o /dev/null -w '%{http_code} %{content_type}')
	[ "$status" = "200 application/octet-stream" ] || fail "$path: $status"
done
