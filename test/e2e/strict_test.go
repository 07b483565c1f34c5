// SPDX-License-Identifier: Apache-2.0

// The strictest reader of a profile that we know of: google/pprof's own checks, the index and id rules on which Parca
// rejects a profile (applied to the wire, where a parser has not yet put anything in order), and the rules of our own
// contract: addresses inside their mappings, unique and not zero, names everywhere, flags that agree.
package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

func parseStrictly(body []byte) (*profile.Profile, error) {
	if len(body) < 2 || body[0] != 0x1f || body[1] != 0x8b {
		return nil, fmt.Errorf("not gzip: % x", body[:min(len(body), 16)])
	}
	gz, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	gz.Multistream(false)
	raw, err := io.ReadAll(gz)
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	if err := checkWire(raw); err != nil {
		return nil, fmt.Errorf("wire: %w", err)
	}
	p, err := profile.ParseUncompressed(raw)
	if err != nil {
		return nil, err
	}
	if err := p.CheckValid(); err != nil {
		return nil, err
	}
	return p, checkContract(p)
}

// field is one protobuf field: a number, and either a value or bytes.
type field struct {
	num   uint64
	value uint64
	bytes []byte
}

func fields(b []byte) ([]field, error) {
	var out []field
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, fmt.Errorf("bad key")
		}
		b = b[n:]
		f := field{num: key >> 3}
		switch key & 7 {
		case 0:
			v, n := binary.Uvarint(b)
			if n <= 0 {
				return nil, fmt.Errorf("bad varint in field %d", f.num)
			}
			f.value, b = v, b[n:]
		case 2:
			l, n := binary.Uvarint(b)
			if n <= 0 || l > uint64(len(b)-n) {
				return nil, fmt.Errorf("bad length of field %d", f.num)
			}
			f.bytes, b = b[n:n+int(l)], b[n+int(l):]
		default:
			return nil, fmt.Errorf("wire type %d of field %d", key&7, f.num)
		}
		out = append(out, f)
	}
	return out, nil
}

// numbers reads a repeated scalar, packed or not.
func numbers(fs []field, num uint64) ([]uint64, error) {
	var out []uint64
	for _, f := range fs {
		if f.num != num {
			continue
		}
		if f.bytes == nil {
			out = append(out, f.value)
			continue
		}
		for b := f.bytes; len(b) > 0; {
			v, n := binary.Uvarint(b)
			if n <= 0 {
				return nil, fmt.Errorf("bad packed field %d", num)
			}
			out, b = append(out, v), b[n:]
		}
	}
	return out, nil
}

// Field numbers of profile.proto.
const (
	pSampleType = 1
	pSample     = 2
	pMapping    = 3
	pLocation   = 4
	pFunction   = 5
	pString     = 6
	pPeriodType = 11
	pComment    = 13
)

// message is a decoded submessage of one kind, by field number; the last value wins, as in protobuf.
func values(b []byte) (map[uint64]uint64, []field, error) {
	fs, err := fields(b)
	m := map[uint64]uint64{}
	for _, f := range fs {
		m[f.num] = f.value
	}
	return m, fs, err
}

func checkWire(raw []byte) error {
	all, err := fields(raw)
	if err != nil {
		return err
	}
	count := map[uint64]uint64{}
	var strs []string
	for _, f := range all {
		count[f.num]++
		if f.num == pString {
			strs = append(strs, string(f.bytes))
		}
	}
	if len(strs) == 0 || strs[0] != "" {
		return fmt.Errorf("string_table[0] is not empty")
	}
	seen := map[string]bool{}
	for _, s := range strs {
		if seen[s] {
			return fmt.Errorf("string %q stands twice in the table", s)
		}
		seen[s] = true
	}
	known := func(what string, i uint64) error {
		if i >= uint64(len(strs)) {
			return fmt.Errorf("%s: string %d of %d", what, i, len(strs))
		}
		return nil
	}
	next := map[uint64]uint64{}
	for _, f := range all {
		if f.num == pString || f.bytes == nil && f.num != pSampleType {
			continue
		}
		if f.num > pComment || f.num == pComment {
			continue
		}
		m, fs, err := values(f.bytes)
		if err != nil {
			return fmt.Errorf("field %d: %w", f.num, err)
		}
		next[f.num]++
		var text []uint64
		switch f.num {
		case pSampleType, pPeriodType:
			text = []uint64{m[1], m[2]}
		case pMapping:
			if m[1] != next[pMapping] {
				return fmt.Errorf("mapping %d has id %d", next[pMapping], m[1])
			}
			text = []uint64{m[5], m[6]}
		case pFunction:
			if m[1] != next[pFunction] {
				return fmt.Errorf("function %d has id %d", next[pFunction], m[1])
			}
			text = []uint64{m[2], m[3], m[4]}
		case pLocation:
			if m[1] != next[pLocation] {
				return fmt.Errorf("location %d has id %d", next[pLocation], m[1])
			}
			if m[2] > count[pMapping] {
				return fmt.Errorf("location %d: mapping %d of %d", m[1], m[2], count[pMapping])
			}
			for _, l := range fs {
				if l.num != 4 {
					continue
				}
				line, _, err := values(l.bytes)
				if err != nil || line[1] == 0 || line[1] > count[pFunction] {
					return fmt.Errorf("location %d: line of function %d: %v", m[1], line[1], err)
				}
			}
		case pSample:
			locs, err := numbers(fs, 1)
			if err != nil {
				return err
			}
			for _, l := range locs {
				if l == 0 || l > count[pLocation] {
					return fmt.Errorf("sample with location %d of %d", l, count[pLocation])
				}
			}
			vals, err := numbers(fs, 2)
			if err != nil || uint64(len(vals)) != count[pSampleType] {
				return fmt.Errorf("sample with %d values for %d types: %v", len(vals), count[pSampleType], err)
			}
			for _, l := range fs {
				if l.num != 3 {
					continue
				}
				label, _, err := values(l.bytes)
				if err != nil || label[1] == 0 {
					return fmt.Errorf("label without a key: %v", err)
				}
				if label[2] != 0 && label[3] != 0 {
					return fmt.Errorf("label is both text and number")
				}
				text = append(text, label[1], label[2], label[4])
			}
		}
		for _, i := range text {
			if err := known(fmt.Sprintf("field %d", f.num), i); err != nil {
				return err
			}
		}
	}
	comments, err := numbers(all, pComment)
	for _, i := range comments {
		if err := known("comment", i); err != nil {
			return err
		}
	}
	return err
}

// checkContract: the rules of the HTTP contract that every profile of ours keeps.
func checkContract(p *profile.Profile) error {
	if len(p.Mapping) == 0 {
		return fmt.Errorf("no mapping")
	}
	if p.TimeNanos <= 0 || p.Period <= 0 {
		return fmt.Errorf("time %d, period %d", p.TimeNanos, p.Period)
	}
	used := map[uint64]bool{}
	addresses := map[uint64]bool{}
	for _, l := range p.Location {
		if l.Address == 0 || addresses[l.Address] {
			return fmt.Errorf("address %#x is zero or stands twice", l.Address)
		}
		addresses[l.Address] = true
		if len(l.Line) == 0 {
			return fmt.Errorf("location %#x has no line", l.Address)
		}
		for _, line := range l.Line {
			if line.Function == nil || line.Function.Name == "" {
				return fmt.Errorf("location %#x has no name", l.Address)
			}
		}
		// Synthetic frames are functions of the agent's that nobody calls; no other of its frames may be seen.
		if m := l.Mapping; m != nil && strings.Contains(m.File, "libpprofagent") &&
			!strings.HasPrefix(l.Line[0].Function.Name, "[") {
			return fmt.Errorf("%s, a frame of the agent, is in the profile", l.Line[0].Function.Name)
		}
		if m := l.Mapping; m != nil {
			used[m.ID] = true
			if l.Address < m.Start || l.Address >= m.Limit {
				return fmt.Errorf("address %#x is outside of %s [%#x, %#x)", l.Address, m.File, m.Start, m.Limit)
			}
		}
	}
	for _, m := range p.Mapping {
		if used[m.ID] && !m.HasFunctions {
			return fmt.Errorf("mapping %s has locations but not has_functions", m.File)
		}
		if m.File == "" || strings.HasSuffix(m.File, " (deleted)") || m.Start >= m.Limit {
			return fmt.Errorf("mapping %+v", m)
		}
		if strings.ToLower(m.BuildID) != m.BuildID {
			return fmt.Errorf("build id %s", m.BuildID)
		}
	}
	for _, s := range p.Sample {
		for _, v := range s.Value {
			if v < 0 {
				return fmt.Errorf("negative value %v", s.Value)
			}
		}
		for key, v := range s.Label {
			if len(v) != 1 || s.NumLabel[key] != nil {
				return fmt.Errorf("label %s: %v and %v", key, v, s.NumLabel[key])
			}
		}
	}
	for _, c := range p.Comments {
		if strings.HasPrefix(c, "executableInfo=") {
			return fmt.Errorf("comment %q means something to Parca", c)
		}
	}
	return nil
}

// The reader itself must be able to say no.
func TestStrictReaderRejects(t *testing.T) {
	str := func(s string) []byte { return append([]byte{pString<<3 | 2, byte(len(s))}, s...) }
	msg := func(num byte, b ...byte) []byte { return append([]byte{num<<3 | 2, byte(len(b))}, b...) }
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	empty := str("")
	for name, raw := range map[string][]byte{
		"no string table":       msg(pMapping, 8, 1),
		"first string not ''":   str("x"),
		"a string twice":        join(empty, str("x"), str("x")),
		"mapping id 2 first":    join(empty, msg(pMapping, 8, 2)),
		"location id 0":         join(empty, msg(pLocation)),
		"function id 3 first":   join(empty, msg(pFunction, 8, 3)),
		"unknown mapping":       join(empty, msg(pLocation, 8, 1, 16, 9)),
		"unknown function":      join(empty, msg(pLocation, 8, 1, 34, 2, 8, 5)),
		"unknown location":      join(empty, msg(pSample, 8, 4)),
		"value too many":        join(empty, msg(pSample, 16, 4)),
		"label without key":     join(empty, msg(pSample, 26, 2, 24, 5)),
		"string out of range":   join(empty, msg(pFunction, 8, 1, 16, 7)),
		"cut":                   {pMapping<<3 | 2, 200},
		"comment out of range":  join(empty, []byte{pComment << 3, 3}),
		"packed comment out":    join(empty, msg(pComment, 0, 9)),
		"truncated in a varint": {0x80},
	} {
		if err := checkWire(raw); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := checkWire(join(empty, str("f"), msg(pFunction, 8, 1, 16, 1), msg(pLocation, 8, 1, 34, 2, 8, 1), msg(pSample, 8, 1))); err != nil {
		t.Errorf("a good one: %v", err)
	}
}
