// SPDX-License-Identifier: Apache-2.0
//
// Searching, and going through what was found.

function search() {
	const term = state.term.toLowerCase();
	matches = null;
	matchedNodes = [];
	$("matched").textContent = "";
	if (term) {
		const found = new Uint8Array(NFRAMES + extraNames.length);
		const names = new Set();
		for (let f = 0; f < found.length; f++)
			if (f !== NFRAMES && nameOf(f).toLowerCase().includes(term)) {
				found[f] = 1;
				if (totals.total.has(f) || f >= NFRAMES)
					names.add(nameOf(f));
			}
		matches = found;
		$("matched").textContent = names.size ? countMatches(names.size) : "nothing found";
	}
	paint();
}

// What is found within something found is not counted again.
function countMatches(nfunctions) {
	const within = new Uint8Array(tree.parent.length);
	let sum = 0;
	for (let i = 1; i < within.length; i++) {
		within[i] = within[tree.parent[i]];
		if (!within[i] && matches[tree.frame[i]] && tree.amount[i]) {
			within[i] = 1;
			sum += tree.total[i];
			matchedNodes.push(i);
		}
	}
	matchedNodes.sort((a, b) => tree.amount[b] - tree.amount[a]);
	return nfunctions + (nfunctions === 1 ? " function, " : " functions, ") + told(sum) + ", " + percent(sum, tree.amount[0]);
}

function clearSearch() {
	$("search").value = state.term = "";
	search();
}

function searchFor(name) {
	$("search").value = state.term = name;
	search();
	graph.scrollIntoView({ block: "nearest" });
	graph.focus();
	nextMatch(1);
}
