// SPDX-License-Identifier: Apache-2.0
//
// From box to box, as keys, mouse and fingers say; zooming.

function showRow(node) {
	const rect = graph.getBoundingClientRect();
	const y = rect.top + rowTop(tree.depth[node]);
	const bottom = innerHeight - $("detail").offsetHeight - theme.row;
	if (y < 0)
		window.scrollBy(0, y - 3 * theme.row);
	else if (y > bottom)
		window.scrollBy(0, y - bottom + 3 * theme.row);
}

function select(node) {
	state.current = node;
	state.hover = -1;
	readOut();
	tell();
	showRow(node);
	paint();
}

function zoomTo(node) {
	state.zoom = node;
	if (!isWithin(state.current, node))
		state.current = node;
	layOut();
	select(state.current);
}

function sibling(step) {
	const node = state.current;
	if (node === state.zoom || !isWithin(node, state.zoom))
		return;
	const list = childrenOf(tree.parent[node]);
	const next = list[list.indexOf(node) + step];
	if (next !== undefined)
		select(next);
}

function inward() {
	const node = state.current;
	const list = childrenOf(node);
	// Above what is zoomed into there is one way.
	if (!isWithin(node, state.zoom))
		select(ancestorsOf(state.zoom)[tree.depth[node] + 1]);
	else if (list.length)
		select(list[0]);
}

function outward() {
	if (state.current)
		select(tree.parent[state.current]);
}

function zoomOut() {
	if (state.zoom)
		zoomTo(tree.parent[state.zoom]);
}

function nextMatch(step) {
	const list = matchedNodes;
	if (!list.length)
		return;
	const at = list.indexOf(state.current);
	const node = list[at < 0 ? 0 : (at + step + list.length) % list.length];
	if (!isWithin(node, state.zoom))
		zoomTo(0);
	select(node);
}

function onKey(e) {
	const up = state.layout === "up";
	const moves = {
		ArrowDown: up ? outward : inward,
		ArrowUp: up ? inward : outward,
		ArrowLeft: () => sibling(-1),
		ArrowRight: () => sibling(1),
		Enter: () => zoomTo(state.current),
		" ": () => zoomTo(state.current),
		Backspace: zoomOut,
		Escape: () => (state.zoom ? zoomTo(0) : clearSearch()),
		Home: () => select(state.zoom),
		n: () => nextMatch(1),
		N: () => nextMatch(-1),
	};
	if (e.ctrlKey || e.metaKey || e.altKey || !moves[e.key])
		return;
	e.preventDefault();
	moves[e.key]();
}
