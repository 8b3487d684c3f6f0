package main

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// The output formats of commands that print data.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatJSONL = "jsonl"
	formatRaw   = "raw"
)

// choice is a flag that takes one of a few words.
type choice struct {
	value   string
	allowed []string
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return strings.Join(c.allowed, "|") }

func (c *choice) Set(word string) error {
	if !slices.Contains(c.allowed, word) {
		return usagef("use one of %s", strings.Join(c.allowed, ", "))
	}
	c.value = word
	return nil
}

// outputFlag adds -o to a command. The first of the allowed formats is the default.
func outputFlag(cmd *cobra.Command, allowed ...string) *choice {
	if len(allowed) == 0 {
		allowed = []string{formatTable, formatJSON, formatJSONL}
	}
	c := &choice{allowed[0], allowed}
	cmd.Flags().VarP(c, "output", "o", "format of the output")
	if err := cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic("stowage: " + err.Error()) // the flag was added one line above
	}
	return c
}

// data is what a command has to show, in all the ways it can be shown.
type data struct {
	whole any          // -o json
	items []any        // -o jsonl, one a line; nil means whole on one line
	table func(*table) // -o table
}

func emit(w io.Writer, format string, d data) error {
	switch format {
	case formatJSON:
		return encodeJSON(w, d.whole, "  ")
	case formatJSONL:
		if d.items == nil {
			return encodeJSON(w, d.whole, "")
		}
		for _, item := range d.items {
			if err := encodeJSON(w, item, ""); err != nil {
				return err
			}
		}
		return nil
	}
	t := &table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	d.table(t)
	return t.w.Flush()
}

func encodeJSON(w io.Writer, v any, indent string) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	return encoder.Encode(v)
}

// table aligns its rows. An error of the writer below comes back from the flush.
type table struct{ w *tabwriter.Writer }

func (t *table) row(cells ...string) {
	for i, cell := range cells {
		cells[i] = printable(cell)
	}
	_, _ = io.WriteString(t.w, strings.Join(cells, "\t")+"\n")
}

// anySlice turns a list into the items of a [data].
func anySlice[T any](list []T) []any {
	items := make([]any, len(list))
	for i, item := range list {
		items[i] = item
	}
	return items
}
