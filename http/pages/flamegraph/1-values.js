// SPDX-License-Identifier: Apache-2.0
//
// The flame graph page. Data in (proto/flame.h says what it looks like), one tree of calls for what is chosen above the
// graph, boxes of the part that is zoomed into, a canvas of those that are in the window. The canvas is as large as the
// window, not as the graph, and only boxes that can be seen exist: the number of stacks hardly matters.
//
// For people who do not see the canvas, the graph is a tree with one current item, which is read out as it changes.
//
// The files of this directory are one script, in their order, and the body of one function: scripts/embed-pages joins them.
//
// What the page knows, and how values are told: frames, amounts and percentages.
"use strict";

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
