// SPDX-License-Identifier: Apache-2.0

// Promise: what a scraper makes of our profiles is what happened between two of them. Grafana Alloy subtracts each heap,
// mutex and block profile from the next itself, by a fast reader of Datadog's that knows less of profile.proto than pprof
// does: packed numbers only, functions found by their numbers, one gzip member with its length at the end. That reader is
// put to two dozen profiles of a program under load, and its sums are compared with google/pprof's.
//
// usage: scrapers HOST:PORT KIND... (those that must have changed). test/suites/scrapers.sh lays the reader beside this file.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"scrapers/fastdelta"
	"scrapers/pprofutils"

	"github.com/google/pprof/profile"
)

var failed bool

func fail(format string, args ...any) {
	failed = true
	fmt.Printf(format+"\n", args...)
}

func fetch(addr, kind string) (packed, raw []byte) {
	r, err := http.Get("http://" + addr + "/debug/pprof/" + kind)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	defer r.Body.Close()
	packed, err = io.ReadAll(r.Body)
	if err != nil || r.StatusCode != 200 || r.Header.Get("Content-Type") != "application/octet-stream" {
		fail("%s: %s, %v, %v", kind, r.Status, r.Header, err)
		os.Exit(1)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		raw, err = io.ReadAll(z)
	}
	if err != nil || int(binary.LittleEndian.Uint32(packed[len(packed)-4:])) != len(raw) {
		fail("%s: %d bytes are not what the end of the file says: %v", kind, len(raw), err)
	}
	return packed, raw
}

func sum(p *profile.Profile, k int) (n int64) {
	for _, s := range p.Sample {
		n += s.Value[k]
	}
	return n
}

func check(addr, kind string, fields []pprofutils.ValueType) {
	const profiles = 12
	computer := fastdelta.NewDeltaComputer(fields...)
	var last *profile.Profile
	samples, changed := 0, 0
	for i := range profiles {
		packed, raw := fetch(addr, kind)
		now, err := profile.ParseData(packed)
		if err != nil {
			fail("%s: %v", kind, err)
			return
		}
		var out bytes.Buffer
		if err := computer.Delta(raw, &out); err != nil {
			fail("%s: profile %d cannot be subtracted: %v", kind, i, err)
			return
		}
		if i > 0 {
			delta, err := profile.ParseData(out.Bytes())
			if err != nil {
				fail("%s: the difference %d: %v", kind, i, err)
				return
			}
			samples += len(delta.Sample)
			for k, t := range now.SampleType {
				want := sum(now, k)
				if t.Type == fields[0].Type || t.Type == fields[1].Type {
					want -= sum(last, k)
					changed += min(1, int(want))
				}
				if got := sum(delta, k); got != want {
					fail("%s: difference %d has %d %s, not %d", kind, i, got, t.Type, want)
				}
			}
		}
		last = now
		time.Sleep(300 * time.Millisecond)
	}
	fmt.Printf("%s: %d differences of %d samples, %d sums rose\n", kind, profiles-1, samples, changed)
	if changed == 0 && slices.Contains(os.Args[2:], kind) {
		fail("nothing happened meanwhile")
	}
}

func main() {
	allocated := []pprofutils.ValueType{{Type: "alloc_objects", Unit: "count"}, {Type: "alloc_space", Unit: "bytes"}}
	waited := []pprofutils.ValueType{{Type: "contentions", Unit: "count"}, {Type: "delay", Unit: "nanoseconds"}}
	for _, kind := range []string{"heap", "allocs"} {
		check(os.Args[1], kind, allocated)
	}
	for _, kind := range []string{"mutex", "block"} {
		check(os.Args[1], kind, waited)
	}
	if failed {
		os.Exit(1)
	}
}
