// SPDX-License-Identifier: Apache-2.0

// Promise: a sleeper's name is what others last called it, though a dump does not read the names of those that did not move.
package e2e

import (
	"strings"
	"testing"
)

func TestDumpKnowsSleepersByTheirNewNames(t *testing.T) {
	x := start(t, nil, victim("renamed"))
	x.awaitAddr()
	x.open()
	x.awaitOutput("ready")
	for _, name := range []string{"first", "second"} {
		for range 3 { // from the second on they are taken from the one before
			all, _ := x.dump()
			if len(all) != 2 {
				t.Fatalf("%d threads, want 2", len(all))
			}
			for _, g := range all {
				if g.name != "renamed" && g.name != name {
					t.Errorf("want %q:\n%s", name, g.text)
				}
			}
			if text := string(x.get(root + "goroutine?debug=1").body); !strings.Contains(text, `"thread":"`+name+`"`) {
				t.Errorf("debug=1 has no %q:\n%s", name, text)
			}
		}
		x.open()
		if name == "first" {
			x.awaitOutput("renamed")
		}
	}
	x.finish()
}
