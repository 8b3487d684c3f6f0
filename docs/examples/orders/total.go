package main

import (
	"context"
	"strconv"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// add adds n to the number under key by compare-and-set, so that no process loses the addition of
// another, and returns the sum.
func add(ctx context.Context, kv ports.Kv, key string, n int) (int, error) {
	for {
		entry, found, err := kv.Get(ctx, key)
		if err != nil {
			return 0, err
		}
		sum, condition := n, types.IfAbsent()
		if found {
			old, err := strconv.Atoi(string(entry.Value))
			if err != nil {
				return 0, err
			}
			sum, condition = old+n, types.IfVersion(entry.Version)
		}
		put, err := kv.Put(ctx, key, []byte(strconv.Itoa(sum)), types.PutOptions{If: condition})
		if err != nil || put.Applied {
			return sum, err
		}
	}
}
