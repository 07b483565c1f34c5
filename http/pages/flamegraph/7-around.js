// SPDX-License-Identifier: Apache-2.0
//
// What stands around the graph: choices, tables, legend; and who listens to what.

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
