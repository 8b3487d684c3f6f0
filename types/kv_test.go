package types_test

import (
	"testing"

	"github.com/stowage-go/stowage/types"
)

func TestConditions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name        string
		cond        types.Condition
		absent      bool
		version     types.KvVersion
		conditional bool
	}{
		{"the zero value", types.Condition{}, false, "", false},
		{"always", types.Always(), false, "", false},
		{"if absent", types.IfAbsent(), true, "", false},
		{"if version", types.IfVersion("v"), false, "v", true},
		{"if an empty version", types.IfVersion(""), false, "", true},
	} {
		version, conditional := tc.cond.Version()
		if tc.cond.Absent() != tc.absent || version != tc.version || conditional != tc.conditional {
			t.Errorf("%s: absent %v, version %q, %v; want %v, %q, %v", tc.name,
				tc.cond.Absent(), version, conditional, tc.absent, tc.version, tc.conditional)
		}
	}
	if types.Always() != (types.PutOptions{}).If {
		t.Error("the zero put options are not unconditional")
	}
}
