package monitor_test

import (
	"fmt"

	"github.com/stowage-go/stowage/core/monitor"
)

func Example() {
	fields := map[string]string{"mag": "number", "net": "string"}
	strong, err := monitor.Compile(`mag >= 4.5`, fields)
	if err != nil {
		fmt.Println(err)
		return
	}
	network, err := monitor.CompileValue(`net`, fields)
	if err != nil {
		fmt.Println(err)
		return
	}
	reader := monitor.NewReader(strong, network)
	for _, event := range []string{`{"mag":4.7,"net":"us"}`, `{"mag":2,"net":"nc"}`, `{"net":"ci"}`} {
		env, err := reader.Read([]byte(event))
		if err != nil {
			fmt.Println(err)
			return
		}
		key, _ := network.Text(env)
		picked, err := strong.Match(env)
		fmt.Println(key, picked, err)
	}
	// Output:
	// us true <nil>
	// nc false <nil>
	// ci false monitor.match: INVALID_INPUT: the expression fails at column 5: invalid operation: null >= number; a member may be missing: guard it, as in (NAME ?? 0) >= 1 or NAME != nil and NAME >= 1
}
