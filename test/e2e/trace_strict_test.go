// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"golang.org/x/exp/trace"
)

// A reader of Go execution traces that knows the format of the wire and believes nothing: what Go's own reader tolerates
// today (ids that are used twice, times that fall, numbers above what the header allows) is an error here. Meaning, such as who
// runs when, is checked by Go's reader, which every file has to pass afterwards.

type strictTrace struct {
	file                         []byte
	at                           int
	strings                      map[uint64]string
	stacks                       map[uint64][]uint64 // ids of strings in each
	usedStrings                  map[uint64]bool
	usedStacks                   map[uint64]bool
	frequencies, events, samples int
	last                         map[uint64]uint64 // time of each M's last event
	born, changed                map[uint64]uint64 // when its goroutine began, and last began or ceased to wait
	goSeq, procSeq               map[uint64][]uint64
	ofM                          map[uint64]uint64 // the P that runs on an M
	procs, procsChange           uint64
	end                          uint64
}

var traceArgs = map[byte]string{ // t string, k stack, others are numbers
	9: "nk", 10: "pq", 11: "", 13: "ps", 14: "gkk", 16: "gq", 17: "", 19: "tk", 20: "tk", 21: "gqk", 22: "qk", 23: "", 25: "gms",
	37: "n", 38: "n", 39: "t", 40: "nntk", 41: "nk", 42: "ntk", 43: "ntk", 44: "nttk",
}

func (s *strictTrace) uvarint() (uint64, error) {
	v, n := binary.Uvarint(s.file[s.at:])
	if n <= 0 {
		return 0, fmt.Errorf("byte %d: no number", s.at)
	}
	s.at += n
	return v, nil
}

func (s *strictTrace) uvarints(n int) ([]uint64, error) {
	var vs []uint64
	for range make([]struct{}, n) {
		v, err := s.uvarint()
		if err != nil {
			return nil, err
		}
		vs = append(vs, v)
	}
	return vs, nil
}

// readStrictTrace reads a file with the header of Go 1.22.
func readStrictTrace(file []byte) (*strictTrace, error) {
	s := &strictTrace{file: file, at: 16, strings: map[uint64]string{0: ""}, stacks: map[uint64][]uint64{0: nil},
		usedStrings: map[uint64]bool{}, usedStacks: map[uint64]bool{}, last: map[uint64]uint64{}, born: map[uint64]uint64{}, changed: map[uint64]uint64{},
		goSeq: map[uint64][]uint64{}, procSeq: map[uint64][]uint64{}, ofM: map[uint64]uint64{}}
	if !bytes.HasPrefix(file, []byte("go 1.22 trace\x00\x00\x00")) {
		return nil, fmt.Errorf("header %q", file[:min(16, len(file))])
	}
	for s.at < len(file) {
		if err := s.batch(); err != nil {
			return nil, fmt.Errorf("batch before byte %d: %w", s.at, err)
		}
	}
	return s, s.check()
}

func (s *strictTrace) batch() error {
	if s.file[s.at] != 1 {
		return fmt.Errorf("byte %d begins no batch", s.file[s.at])
	}
	s.at++
	head, err := s.uvarints(4)
	if err != nil {
		return err
	}
	m, now, size := head[1], head[2], int(head[3])
	if head[0] != 1 || now == 0 || size == 0 || size > 65536 || s.at+size > len(s.file) {
		return fmt.Errorf("generation %d, time %d, %d bytes", head[0], now, size)
	}
	end := s.at + size
	kind := s.file[s.at]
	table := map[byte]func() error{3: s.stack, 5: s.text, 7: s.sample}
	switch kind {
	case 2, 4, 6:
		for s.at++; s.at < end; {
			item := table[s.file[s.at]]
			if item == nil || s.file[s.at] != kind+1 {
				return fmt.Errorf("item %d in table %d", s.file[s.at], kind)
			}
			s.at++
			if err := item(); err != nil {
				return err
			}
		}
	case 8:
		s.at++
		s.frequencies++
		if f, err := s.uvarint(); err != nil || f != 1000000000 {
			return fmt.Errorf("frequency %d (%v)", f, err)
		}
	default:
		if m == ^uint64(0) {
			return errors.New("events of no thread")
		}
		for s.at < end {
			if now, err = s.event(m, now); err != nil {
				return err
			}
		}
	}
	if s.at != end {
		return errors.New("something crosses the end of its batch")
	}
	return nil
}

func (s *strictTrace) stack() error {
	head, err := s.uvarints(2)
	if err != nil || head[1] == 0 || head[1] > 128 {
		return fmt.Errorf("stack of %v frames (%v)", head, err)
	}
	if _, twice := s.stacks[head[0]]; twice {
		return fmt.Errorf("stack %d is there twice", head[0])
	}
	s.stacks[head[0]] = []uint64{}
	for range make([]struct{}, head[1]) {
		f, err := s.uvarints(4)
		if err != nil || f[0] == 0 || f[1] == 0 || f[2] == 0 || f[3] == 0 {
			return fmt.Errorf("frame %v (%v)", f, err)
		}
		s.usedStrings[f[1]], s.usedStrings[f[2]] = true, true
	}
	return nil
}

func (s *strictTrace) text() error {
	head, err := s.uvarints(2)
	if err != nil || head[1] > 1024 || s.at+int(head[1]) > len(s.file) {
		return fmt.Errorf("string of %v bytes (%v)", head, err)
	}
	if _, twice := s.strings[head[0]]; twice {
		return fmt.Errorf("string %d is there twice", head[0])
	}
	text := s.file[s.at : s.at+int(head[1])]
	if !bytes.Equal(bytes.ToValidUTF8(text, []byte("?")), text) {
		return fmt.Errorf("string %q is not UTF-8", text)
	}
	s.strings[head[0]] = string(text)
	s.at += len(text)
	return nil
}

func (s *strictTrace) sample() error {
	f, err := s.uvarints(5)
	if err != nil || f[0] == 0 {
		return fmt.Errorf("sample %v (%v)", f, err)
	}
	s.usedStacks[f[4]] = true
	s.samples++
	return nil
}

func (s *strictTrace) event(m, now uint64) (uint64, error) {
	id := s.file[s.at]
	kinds, known := traceArgs[id]
	if !known {
		return 0, fmt.Errorf("event %d", id)
	}
	s.at++
	args, err := s.uvarints(1 + len(kinds))
	if err != nil {
		return 0, err
	}
	now += args[0]
	args = args[1:]
	if now < s.last[m] {
		return 0, fmt.Errorf("time falls to %d", now)
	}
	s.last[m], s.end = now, max(s.end, now)
	// A state that lasts no time is none: pprof counts it as nothing, and viewers draw it over its neighbour. But for the roll
	// call, where each is named by such a one, and the agent's own thread, which stands for nobody.
	switch id {
	case 9:
		s.born[m] = ^uint64(0)
	case 10:
		s.born[m] = max(s.born[m], now)
	case 16, 20, 22, 23:
		if before := s.changed[m]; now <= before && before > s.born[m] {
			return 0, fmt.Errorf("event %d: two changes of state at %d", id, now)
		}
		s.changed[m] = now
	}
	for i, kind := range kinds {
		if kind == 't' {
			s.usedStrings[args[i]] = true
		} else if kind == 'k' {
			s.usedStacks[args[i]] = true
		}
	}
	switch id {
	case 9:
		s.procsChange = args[0]
	case 10, 13:
		if id == 10 {
			s.procSeq[args[0]] = append(s.procSeq[args[0]], args[1])
		}
		s.ofM[m], s.procs = args[0], max(s.procs, args[0]+1)
	case 16, 21:
		s.goSeq[args[0]] = append(s.goSeq[args[0]], args[1])
	case 22:
		s.procSeq[s.ofM[m]] = append(s.procSeq[s.ofM[m]], args[0])
	}
	s.events++
	return now, nil
}

func (s *strictTrace) check() error {
	if s.frequencies != 1 {
		return fmt.Errorf("%d frequencies", s.frequencies)
	}
	if s.procsChange != s.procs {
		return fmt.Errorf("ProcsChange says %d, there are %d", s.procsChange, s.procs)
	}
	for id := range s.usedStrings {
		if _, ok := s.strings[id]; !ok {
			return fmt.Errorf("no string %d", id)
		}
	}
	for id := range s.usedStacks {
		if _, ok := s.stacks[id]; !ok {
			return fmt.Errorf("no stack %d", id)
		}
	}
	for what, seqs := range map[string]map[uint64][]uint64{"G": s.goSeq, "P": s.procSeq} {
		for id, list := range seqs {
			seen := make([]bool, len(list)+1)
			for _, n := range list {
				if n == 0 || n > uint64(len(list)) || seen[n] {
					return fmt.Errorf("%s %d: number %d of 1..%d", what, id, n, len(list))
				}
				seen[n] = true
			}
		}
	}
	return nil
}

// readTrace passes a file through both readers and gives the events.
func readTrace(file []byte) ([]trace.Event, *strictTrace, error) {
	strict, err := readStrictTrace(file)
	if err != nil {
		return nil, nil, err
	}
	r, err := trace.NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, nil, err
	}
	var events []trace.Event
	for {
		e, err := r.ReadEvent()
		if err == io.EOF {
			return events, strict, nil
		}
		if err != nil {
			return nil, nil, err
		}
		events = append(events, e)
	}
}
