// SPDX-License-Identifier: Apache-2.0
//
// The page begins.

P.types.forEach(([name, unit], i) => $("type").append(new Option(name + " (" + unit + ")", i, false, i === P.selected)));
$("type").parentElement.hidden = P.types.length < 2;
fillLabels();
for (const id of ["tools", "legend", "graph", "detail"])
	$(id).hidden = false;
$("stacks").hidden = true;
makeSortable();
look();
rebuild();
listen();
// After the first picture: how long opening took, for whoever measures it.
requestAnimationFrame(() => setTimeout(() => performance.mark("flamegraph-ready")));
