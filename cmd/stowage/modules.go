package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stowage-go/stowage/core/catalog"
	"github.com/stowage-go/stowage/ports"
)

// module is a module of a listing.
type module struct {
	Kind        string `json:"kind"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Example     string `json:"example,omitempty"`
}

func modulesCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "modules",
		Short: "List the modules that a configuration can name",
		Long: `List the modules that a configuration can name, for the storage, key-value stores, queues, and the
sources and sinks of pipelines. "modules show" prints a complete configuration that uses one, with all its keys.`,
		Example: `  stowage modules
  stowage modules show localkv
  stowage modules show ndjson --kind sink`,
		Args: cobra.NoArgs,
	}
	output := outputFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		list := moduleList()
		for i := range list {
			list[i].Example = ""
		}
		return emit(a.out, output.value, data{
			whole: struct {
				Modules []module `json:"modules"`
			}{list},
			items: anySlice(list),
			table: func(t *table) {
				t.row("KIND", "NAME", "DESCRIPTION")
				for _, m := range list {
					t.row(m.Kind, m.Name, m.Description)
				}
			},
		})
	}
	cmd.AddCommand(moduleShowCommand(a))
	return cmd
}

func moduleShowCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Print a configuration that uses a module",
		Long: `Print a complete stowage.toml that uses the module, with all its keys and their defaults. A name may be
that of modules of several kinds: --kind says which one is meant.`,
		Example: `  stowage modules show localqueue > stowage.toml
  stowage modules show ndjson --kind source`,
		Args: cobra.ExactArgs(1),
	}
	kinds := []string{string(catalog.KindSource), string(catalog.KindSink), string(catalog.KindQueue), string(catalog.KindStorage), string(catalog.KindKv)}
	kind := &choice{allowed: kinds}
	cmd.Flags().Var(kind, "kind", "kind of the module; needed where a name has several")
	if err := cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic("stowage: " + err.Error()) // the flag was added one line above
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		var found []module
		var commands []string
		for _, m := range moduleList() {
			if m.Name == args[0] && (kind.value == "" || m.Kind == kind.value) {
				found = append(found, m)
				commands = append(commands, fmt.Sprintf("stowage modules show %s --kind %s", m.Name, m.Kind))
			}
		}
		switch {
		case len(found) == 0 && kind.value != "":
			return ports.Errorf(ports.CodeNotFound, "modules.show", "there is no module %q of the kind %s: \"stowage modules\" lists them", args[0], kind.value)
		case len(found) == 0:
			return ports.Errorf(ports.CodeNotFound, "modules.show", "there is no module %q: \"stowage modules\" lists them", args[0])
		case len(found) > 1:
			return usagef("modules of %d kinds have the name %s: say which one you mean, with %s", len(found), args[0], strings.Join(commands, ", or "))
		}
		if _, err := io.WriteString(a.out, found[0].Example); err != nil {
			return fmt.Errorf("write the example: %w", err)
		}
		return nil
	}
	return cmd
}

// versions is what "stowage version" says.
type versions struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	SQLite   string `json:"sqlite"`
}

func versionCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the versions of stowage, Go and SQLite",
		Long:    `Print the version of this binary, of Go, and of the SQLite engine in it.`,
		Example: `  stowage version -o json`,
		Args:    cobra.NoArgs,
	}
	output := outputFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		v := versions{
			Version:  version(),
			Revision: revision(),
			Go:       runtime.Version(),
			Platform: runtime.GOOS + "/" + runtime.GOARCH,
			SQLite:   engineVersion(),
		}
		return emit(a.out, output.value, data{
			whole: v,
			table: func(t *table) {
				t.row("stowage", v.Version)
				if v.Revision != "" {
					t.row("revision", v.Revision)
				}
				t.row("go", v.Go+" "+v.Platform)
				t.row("sqlite", v.SQLite)
			},
		})
	}
	return cmd
}

// version is that of the module, as the build recorded it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}
