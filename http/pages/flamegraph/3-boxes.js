// SPDX-License-Identifier: Apache-2.0
//
// The tree as rows of boxes, and the canvas that shows those in the window.

const graph = $("graph");
const canvas = graph.querySelector("canvas");
const ink = canvas.getContext("2d");

function put(depth, x, w, node) {
	const row = rows[depth] || (rows[depth] = { x: [], w: [], node: [] });
	row.x.push(x);
	row.w.push(w);
	row.node.push(node);
}

function layOut() {
	const width = (theme.width = graph.clientWidth);
	const scale = width / (tree.amount[state.zoom] || 1);
	const left = [state.zoom];
	const lefts = [0];
	rows = [];
	for (const a of ancestorsOf(state.zoom).slice(0, -1))
		put(tree.depth[a], 0, width, a);
	while (left.length) {
		const node = left.pop();
		let x = lefts.pop();
		put(tree.depth[node], x, tree.amount[node] * scale, node);
		const list = childrenOf(node);
		const wide = [];
		for (let i = 0; i < list.length; i++) {
			const w = tree.amount[list[i]] * scale;
			if (w < TOO_SMALL) {
				let rest = 0;
				for (let k = i; k < list.length; k++)
					rest += tree.amount[list[k]] * scale;
				if (rest >= TOO_SMALL)
					put(tree.depth[node] + 1, x, rest, -1);
				break;
			}
			wide.push([list[i], x]);
			x += w;
		}
		for (const [c, cx] of wide.reverse()) {
			left.push(c);
			lefts.push(cx);
		}
	}
	for (const row of rows)
		sortRow(row);
	graph.style.height = Math.max(rows.length, 8) * theme.row + "px";
}

// A row gets its boxes from left to right but for the grey rests, which come early.
function sortRow(row) {
	const order = row.x.map((_, i) => i).sort((a, b) => row.x[a] - row.x[b]);
	for (const key of ["x", "w", "node"]) {
		const old = row[key];
		row[key] = order.map((i) => old[i]);
	}
}

const rowTop = (depth) => (state.layout === "up" ? Math.max(rows.length, 8) - 1 - depth : depth) * theme.row;

function boxAt(x, y) {
	const at = Math.floor(y / theme.row);
	const row = rows[state.layout === "up" ? Math.max(rows.length, 8) - 1 - at : at];
	if (!row)
		return -1;
	let low = 0;
	let high = row.x.length - 1;
	while (low < high) {
		const middle = (low + high + 1) >> 1;
		if (row.x[middle] <= x)
			low = middle;
		else
			high = middle - 1;
	}
	return x >= row.x[low] && x < row.x[low] + row.w[low] ? row.node[low] : -1;
}

function look() {
	const style = getComputedStyle(document.documentElement);
	const get = (name) => style.getPropertyValue(name).trim();
	const isTouch = matchMedia("(pointer: coarse)").matches;
	theme = {
		paper: get("--paper"), ink: get("--ink"), match: get("--match"), focus: get("--focus"),
		s: get("--box-s"), l: parseFloat(get("--box-l")), greyL: get("--grey-l"),
		grown: get("--grown"), shrunk: get("--shrunk"),
		row: isTouch ? 26 : 19,
		font: (isTouch ? 13 : 12) + "px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace",
	};
	ink.font = theme.font;
	theme.letter = ink.measureText("mmmmmmmmmm").width / 10;
}

function hueOf(frame) {
	const hue = hues.get(moduleOf(frame));
	return hue === undefined ? -1 : hue;
}

function colour(node) {
	const f = tree.frame[node];
	if (matches && matches[f])
		return theme.match;
	if (tree.hasNegative)
		return "hsl(" + (tree.total[node] < 0 ? theme.shrunk : theme.grown) + " " + theme.s + " " + theme.l + "%)";
	const hue = hueOf(f);
	// Neighbours differ a little, the same function is the same everywhere.
	const l = theme.l + ((f * 7) % 5) - 2;
	return hue < 0 ? "hsl(0 0% " + theme.greyL + ")" : "hsl(" + hue + " " + theme.s + " " + l + "%)";
}

function paintBox(x, y, w, node) {
	ink.globalAlpha = node >= 0 && tree.depth[node] < tree.depth[state.zoom] ? 0.55 : matches && (node < 0 || !matches[tree.frame[node]]) ? 0.45 : 1;
	ink.fillStyle = node < 0 ? "hsl(0 0% " + theme.greyL + ")" : colour(node);
	ink.fillRect(x, y, Math.max(w - (w > 3 ? 1 : 0), TOO_SMALL), theme.row - 1);
	const room = Math.floor((w - 8) / theme.letter);
	if (node >= 0 && room >= 3) {
		const name = nameOf(tree.frame[node]);
		ink.globalAlpha = Math.max(ink.globalAlpha, 0.75);
		ink.fillStyle = theme.ink;
		ink.fillText(name.length > room ? name.slice(0, room - 1) + "\u2026" : name, x + 4, y + theme.row / 2);
	}
}

function outline(node, width) {
	const row = node >= 0 && rows[tree.depth[node]];
	const at = row ? row.node.indexOf(node) : -1;
	if (at < 0)
		return;
	ink.globalAlpha = 1;
	ink.strokeStyle = width > 1 ? theme.focus : theme.ink;
	ink.lineWidth = width;
	ink.strokeRect(row.x[at] + width / 2, rowTop(tree.depth[node]) + width / 2,
		Math.max(row.w[at] - width - 1, 1), theme.row - width - 1);
}

let isDue = false;
function paint() {
	if (isDue)
		return;
	isDue = true;
	requestAnimationFrame(paintNow);
}

function paintNow() {
	isDue = false;
	const width = graph.clientWidth;
	const whole = graph.clientHeight;
	const height = Math.min(whole, innerHeight + 2 * MARGIN);
	const top = Math.max(0, Math.min(whole - height, -graph.getBoundingClientRect().top - MARGIN));
	const ratio = window.devicePixelRatio || 1;
	if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
		canvas.width = Math.round(width * ratio);
		canvas.height = Math.round(height * ratio);
		canvas.style.width = width + "px";
		canvas.style.height = height + "px";
	}
	canvas.style.top = top + "px";
	ink.setTransform(ratio, 0, 0, ratio, 0, -top * ratio);
	ink.clearRect(0, top, width, height);
	ink.font = theme.font;
	ink.textBaseline = "middle";
	rows.forEach((row, depth) => {
		const y = rowTop(depth);
		if (y + theme.row < top || y > top + height)
			return;
		for (let i = 0; i < row.x.length; i++)
			paintBox(row.x[i], y, row.w[i], row.node[i]);
	});
	outline(state.hover, 1);
	if (state.current || document.activeElement === graph)
		outline(state.current, 2);
	ink.globalAlpha = 1;
}
