// SPDX-License-Identifier: Apache-2.0
//
// The flame graph page. Data in (proto/flame.h says what it looks like), one tree of calls for what is chosen above the
// graph, boxes of the part that is zoomed into, a canvas of those that are in the window. The canvas is as large as the
// window, not as the graph, and only boxes that can be seen exist: the number of stacks hardly matters.
//
// For people who do not see the canvas, the graph is a tree with one current item, which is read out as it changes.
"use strict";
(() => {
	const $ = (id) => document.getElementById(id);
	const P = JSON.parse($("data").textContent);
	const NFRAMES = P.frames.length / 3;
	const TOO_SMALL = 0.5; // pixels
	const MARGIN = 300; // pixels drawn above and below the window, for scrolling
	const PALETTE = [205, 140, 55, 265, 175, 90, 235, 345];

	// ---- frames ----

	// The root, and labels when the graph is split by them, are frames after those of the data.
	const extraNames = ["all"];
	const nameOf = (f) => (f < NFRAMES ? P.strings[P.frames[3 * f]] : extraNames[f - NFRAMES]);
	const moduleOf = (f) => (f < NFRAMES ? P.strings[P.frames[3 * f + 1]] : "");
	const fileOf = (f) => (f < NFRAMES ? P.strings[P.frames[3 * f + 2]] : "");

	function extraFrame(name) {
		let at = extraNames.indexOf(name);
		if (at < 0)
			at = extraNames.push(name) - 1;
		return NFRAMES + at;
	}

	// ---- values, as http/html.c tells them ----

	const SCALES = {
		bytes: [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 1024], ["B", 1]],
		nanoseconds: [["h", 3600e9, 36000e9], ["min", 60e9, 600e9], ["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]],
	};

	function told(v) {
		const [type, unit] = P.types[state.type];
		const scales = SCALES[unit];
		const amount = Math.abs(v);
		const sign = v < 0 ? "-" : "";
		if (!scales)
			return sign + amount.toLocaleString("en-US") + " " + (unit === "count" ? type : unit);
		const [name, size] = scales.find((s) => amount >= (s[2] || s[1])) || scales[scales.length - 1];
		const shown = amount / size;
		return sign + shown.toFixed(size === 1 || shown >= 100 ? 0 : shown >= 10 ? 1 : 2) + " " + name;
	}

	function percent(part, whole) {
		const p = whole ? (100 * part) / whole : 0;
		return (Math.abs(p) >= 9.95 ? p.toFixed(1) : p.toFixed(2)) + " %";
	}

	// ---- state ----

	const state = {
		type: P.selected,
		layout: "down", // down, up, callees
		label: "", // "", "is ID", "by KEY"
		zoom: 0,
		current: 0,
		hover: -1,
		term: "",
	};
	let tree; // arrays, by node; node 0 is the root
	let totals; // by frame: self, total, and what is in them by amount
	let hues = new Map(); // module to hue
	let rows = []; // by depth: {x, w, node} of boxes; node -1 stands for many small ones
	let matches = null; // by frame, or null
	let matchedNodes = []; // the outermost ones, heaviest first
	let theme;

	// ---- the tree ----

	// Calls see(frames, value) for each stack, root first, under the frame of its label where the graph is split.
	function eachStack(see) {
		const S = P.stacks;
		const ntypes = P.types.length;
		const only = state.label.startsWith("is ") ? Number(state.label.slice(3)) : -1;
		const by = state.label.startsWith("by ") ? state.label.slice(3) : null;
		const groups = new Map();
		const frames = [];
		for (let i = 0; i < S.length; ) {
			frames.length = S[i++];
			for (let more = S[i++]; more > 0; more--)
				frames.push(S[i++]);
			let sum = 0;
			groups.clear();
			for (let entries = S[i++]; entries > 0; entries--) {
				const labels = i + 1;
				const end = labels + S[i];
				const v = S[end + state.type];
				let isIn = only < 0;
				let group = "(no " + by + ")";
				for (let k = labels; k < end; k++) {
					isIn = isIn || S[k] === only;
					if (by !== null && P.labels[S[k]][0] === by)
						group = by + ": " + P.labels[S[k]][1];
				}
				if (isIn && v !== 0) {
					sum += v;
					if (by !== null)
						groups.set(group, (groups.get(group) || 0) + v);
				}
				i = end + ntypes;
			}
			if (by === null && sum !== 0)
				see(frames, sum);
			for (const [name, v] of groups)
				if (v !== 0)
					see([extraFrame(name)].concat(frames), v);
		}
	}

	function build() {
		const t = { parent: [-1], frame: [NFRAMES], depth: [0], self: [0], amount: [0] };
		const path = [0]; // nodes of the stack before
		const pathFrames = [];
		const isSorted = state.layout !== "callees" && !state.label.startsWith("by ");
		const known = new Map(); // parent and frame to node, where equal beginnings are not neighbours
		const sums = { self: new Map(), total: new Map() };
		const seen = new Map();
		let nstacks = 0;

		const child = (parent, frame) => {
			const node = t.parent.push(parent) - 1;
			t.frame.push(frame);
			t.depth.push(t.depth[parent] + 1);
			t.self.push(0);
			t.amount.push(0);
			return node;
		};
		const add = (map, f, v) => map.set(f, (map.get(f) || 0) + v);
		eachStack((stack, v) => {
			const frames = state.layout === "callees" ? stack.slice().reverse() : stack;
			let node = 0;
			nstacks++;
			for (const f of stack) {
				if (seen.get(f) !== nstacks && f < NFRAMES)
					add(sums.total, f, v);
				seen.set(f, nstacks);
			}
			if (stack.length)
				add(sums.self, stack[stack.length - 1], v);
			if (isSorted) {
				let shared = 0;
				while (shared < frames.length && frames[shared] === pathFrames[shared])
					shared++;
				path.length = shared + 1;
				pathFrames.length = shared;
				for (let k = shared; k < frames.length; k++) {
					path.push(child(path[k], frames[k]));
					pathFrames.push(frames[k]);
				}
				node = path[frames.length];
			} else {
				for (const f of frames) {
					const key = node * 1e7 + f;
					let next = known.get(key);
					if (next === undefined)
						known.set(key, (next = child(node, f)));
					node = next;
				}
			}
			t.self[node] += v;
			t.amount[node] += Math.abs(v);
		});
		addUp(t);
		t.hasNegative = t.amount[0] !== t.total[0];
		t.nstacks = nstacks;
		tree = t;
		totals = sums;
	}

	// Children come after their parents: sums go up from the end; then children lie together in one array.
	function addUp(t) {
		const n = t.parent.length;
		t.total = t.self.slice();
		t.first = new Int32Array(n + 1);
		t.children = new Int32Array(n);
		t.isOrdered = new Uint8Array(n);
		for (let i = n - 1; i > 0; i--) {
			t.total[t.parent[i]] += t.total[i];
			t.amount[t.parent[i]] += t.amount[i];
			t.first[t.parent[i] + 1]++;
		}
		for (let i = 0; i < n; i++)
			t.first[i + 1] += t.first[i];
		const at = t.first.slice();
		for (let i = 1; i < n; i++)
			t.children[at[t.parent[i]]++] = i;
	}

	// Heaviest first; sorted when first asked for, because few are.
	function childrenOf(node) {
		const list = tree.children.subarray(tree.first[node], tree.first[node + 1]);
		if (!tree.isOrdered[node]) {
			tree.isOrdered[node] = 1;
			if (list.length > 1)
				list.sort((a, b) => tree.amount[b] - tree.amount[a] || a - b);
		}
		return list;
	}

	function isWithin(node, ancestor) {
		while (tree.depth[node] > tree.depth[ancestor])
			node = tree.parent[node];
		return node === ancestor;
	}

	function ancestorsOf(node) {
		const list = [];
		for (; node >= 0; node = tree.parent[node])
			list.unshift(node);
		return list;
	}

	// ---- boxes ----

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

	// ---- words about a box ----

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

	// ---- moving ----

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

	// ---- search ----

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

	// ---- what stands around the graph ----

	let sortedBy = "self";

	function fillTable() {
		const body = $("functions").querySelector("tbody");
		const whole = tree.amount[0];
		const list = [...totals.total.keys()];
		const key = (f) => Math.abs(totals[sortedBy].get(f) || 0);
		list.sort((a, b) => key(b) - key(a) || Math.abs(totals.total.get(b)) - Math.abs(totals.total.get(a)));
		body.replaceChildren(...list.slice(0, 100).map((f) => {
			const row = document.createElement("tr");
			const self = totals.self.get(f) || 0;
			const total = totals.total.get(f);
			for (const [text, isWide] of [[told(self)], [percent(self, whole)], [told(total), 1], [percent(total, whole)]]) {
				const cell = row.insertCell();
				cell.textContent = text;
				cell.className = isWide ? "wide" : "";
			}
			const cell = row.insertCell();
			const name = document.createElement("button");
			const place = document.createElement("small");
			name.type = "button";
			name.textContent = nameOf(f);
			name.addEventListener("click", () => searchFor(nameOf(f)));
			place.textContent = " " + moduleOf(f);
			cell.append(name, place);
			return row;
		}));
		for (const th of $("functions").querySelectorAll("th[data-by]"))
			if (th.dataset.by === sortedBy)
				th.setAttribute("aria-sort", "descending");
			else
				th.removeAttribute("aria-sort");
	}

	function makeSortable() {
		for (const th of $("functions").querySelectorAll("th[data-by]")) {
			const button = document.createElement("button");
			button.type = "button";
			button.textContent = th.textContent;
			button.addEventListener("click", () => {
				sortedBy = th.dataset.by;
				fillTable();
			});
			th.replaceChildren(button);
		}
	}

	// The program has a colour of its own; libraries get theirs by their share.
	function fillLegend() {
		const shares = new Map();
		let sum = 0;
		for (const [f, v] of totals.self) {
			shares.set(moduleOf(f), (shares.get(moduleOf(f)) || 0) + Math.abs(v));
			sum += Math.abs(v);
		}
		for (const f of totals.total.keys())
			if (!shares.has(moduleOf(f)))
				shares.set(moduleOf(f), 0);
		const list = [...shares].sort((a, b) => b[1] - a[1]);
		let next = 0;
		for (const [name] of list)
			if (name && !hues.has(name))
				hues.set(name, name === P.main ? 28 : PALETTE[next++ % PALETTE.length]);
		const entries = tree.hasNegative
			? [["grown", theme.grown], ["shrunk", theme.shrunk]]
			: list.slice(0, 6).map(([name, v]) => [(name || "no file") + " " + percent(v, sum), name ? hues.get(name) : -1]);
		$("legend").replaceChildren(...entries.map(([text, hue]) => {
			const entry = document.createElement("span");
			const swatch = document.createElement("i");
			swatch.style.background = hue < 0 ? "hsl(0 0% " + theme.greyL + ")" : "hsl(" + hue + " " + theme.s + " " + theme.l + "%)";
			entry.append(swatch, text);
			return entry;
		}));
	}

	function fillLabels() {
		const keys = new Map();
		P.labels.forEach(([key, text], id) => keys.set(key, (keys.get(key) || []).concat([[text, id]])));
		for (const [key, values] of keys) {
			const group = document.createElement("optgroup");
			group.label = key;
			group.append(new Option("split by " + key, "by " + key));
			const isNumber = values.every(([text]) => text !== "" && !isNaN(text));
			values.sort(([a], [b]) => (isNumber ? a - b : a < b ? -1 : 1));
			for (const [text, id] of values.slice(0, 300))
				group.append(new Option(key + ": " + text, "is " + id));
			$("label").append(group);
		}
		$("label").parentElement.hidden = keys.size === 0;
	}

	function rebuild() {
		state.zoom = state.current = 0;
		state.hover = -1;
		build();
		fillLegend();
		fillTable();
		layOut();
		search();
		readOut();
		tell();
		paint();
		graph.setAttribute("aria-label", "Flame graph of " + P.types[state.type][0] + ", " + tree.nstacks + " stacks, " + told(tree.total[0]));
		const [type, unit] = P.types[state.type];
		$("shown").textContent = told(tree.total[0]) + (unit === "count" ? "" : " " + type);
	}

	function listen() {
		const place = (e) => {
			const rect = graph.getBoundingClientRect();
			return boxAt(e.clientX - rect.left, e.clientY - rect.top);
		};
		const choose = (id, field, convert) => $(id).addEventListener("change", (e) => {
			state[field] = convert(e.target.value);
			rebuild();
		});
		choose("type", "type", Number);
		choose("layout", "layout", String);
		choose("label", "label", String);
		$("search").addEventListener("input", (e) => {
			state.term = e.target.value;
			search();
		});
		$("search").addEventListener("keydown", (e) => {
			if (e.key === "Escape") {
				clearSearch();
				graph.focus();
			} else if (e.key === "Enter") {
				graph.focus();
				nextMatch(1);
			} else {
				return;
			}
			e.preventDefault();
		});
		$("out").addEventListener("click", zoomOut);
		$("reset").addEventListener("click", () => zoomTo(0));
		$("help").addEventListener("click", () => {
			$("keys").hidden = !$("keys").hidden;
			$("help").setAttribute("aria-expanded", String(!$("keys").hidden));
		});
		$("tools").addEventListener("submit", (e) => e.preventDefault());
		graph.addEventListener("keydown", onKey);
		graph.addEventListener("focus", () => { readOut(); paint(); });
		graph.addEventListener("blur", paint);
		graph.addEventListener("click", (e) => {
			const node = place(e);
			if (node < 0)
				return;
			state.current = node;
			zoomTo(node);
		});
		graph.addEventListener("pointermove", (e) => {
			const node = e.pointerType === "mouse" ? place(e) : -1;
			if (node === state.hover)
				return;
			state.hover = node;
			tell();
			paint();
		});
		graph.addEventListener("pointerleave", () => { state.hover = -1; tell(); paint(); });
		document.addEventListener("keydown", (e) => {
			if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName))
				return;
			e.preventDefault();
			$("search").focus();
			$("search").select();
		});
		addEventListener("scroll", paint, { passive: true });
		new ResizeObserver(() => {
			if (graph.clientWidth === theme.width)
				return;
			layOut();
			paint();
		}).observe(graph);
		for (const query of ["(prefers-color-scheme: dark)", "(pointer: coarse)"])
			matchMedia(query).addEventListener("change", () => { look(); fillLegend(); layOut(); paint(); });
	}

	// ---- begin ----

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
})();
