// SPDX-License-Identifier: Apache-2.0
//
// What is chosen above the graph, and the tree of calls that follows from it.

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
