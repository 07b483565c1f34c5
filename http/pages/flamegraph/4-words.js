// SPDX-License-Identifier: Apache-2.0
//
// What is said of a box, on the page and to readers of screens.

function wordsOf(node) {
	const whole = tree.amount[0];
	const up = tree.parent[node];
	const words = [told(tree.total[node]) + (node ? ", " + percent(tree.total[node], whole) + " of all" : " in all")];
	if (up > 0)
		words.push(percent(tree.total[node], tree.amount[up]) + " of the box " + (state.layout === "up" ? "below" : "above"));
	if (node && tree.self[node] && state.layout !== "callees")
		words.push("itself " + told(tree.self[node]) + ", " + percent(tree.self[node], whole));
	return words;
}

function tell() {
	const node = state.hover >= 0 ? state.hover : state.current;
	const f = tree.frame[node];
	const place = [moduleOf(f), fileOf(f)].filter((s) => s).join(", ");
	$("detail").firstElementChild.textContent = nameOf(f);
	$("detail").lastElementChild.textContent = wordsOf(node).join("; ") + (place ? " (" + place + ")" : "");
	$("out").disabled = $("reset").disabled = state.zoom === 0;
}

// Two elements in turn, so that a reader notices each change.
let speaker = 0;
function readOut() {
	const node = state.current;
	const list = node ? childrenOf(tree.parent[node]) : [0];
	$("node" + speaker).removeAttribute("role");
	$("node" + speaker).textContent = "";
	speaker = 1 - speaker;
	const item = $("node" + speaker);
	item.setAttribute("role", "treeitem");
	item.setAttribute("aria-level", tree.depth[node] + 1);
	item.setAttribute("aria-setsize", list.length);
	item.setAttribute("aria-posinset", list.indexOf(node) + 1);
	item.setAttribute("aria-selected", "true");
	if (childrenOf(node).length)
		item.setAttribute("aria-expanded", "true");
	else
		item.removeAttribute("aria-expanded");
	item.textContent = nameOf(tree.frame[node]) + ": " + wordsOf(node).join("; ");
	graph.setAttribute("aria-activedescendant", item.id);
}
