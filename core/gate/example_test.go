package gate_test

import (
	"fmt"
	"time"

	"github.com/stowage-go/stowage/core/gate"
	"github.com/stowage-go/stowage/types"
)

// Three strong earthquakes of one network within an hour make an alert, and then it is quiet for a day.
func Example() {
	g, err := gate.New("strong", gate.Config{Threshold: 3, Window: time.Hour, Cooldown: 24 * time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, minute := range []int64{0, 20, 50, 55} {
		e := types.Event{Cursor: types.Cursor{Primary: uint64(i)}, TS: minute * time.Minute.Milliseconds(), Data: []byte(`{"net":"us"}`)}
		hit, emission := g.Offer(e, "us")
		fmt.Printf("minute %d: journaled %v", minute, hit != nil)
		if emission != nil {
			fmt.Printf(", let through for %d matches of %s", emission.Hits, emission.Key)
		}
		fmt.Println()
	}
	// Output:
	// minute 0: journaled true
	// minute 20: journaled true
	// minute 50: journaled true, let through for 3 matches of us
	// minute 55: journaled true
}
