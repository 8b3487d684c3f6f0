package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

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
  stowage modules show localkv`,
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
	return &cobra.Command{
		Use:     "show NAME",
		Short:   "Print a configuration that uses a module",
		Long:    `Print a complete stowage.toml that uses the module, with all its keys and their defaults.`,
		Example: `  stowage modules show localqueue > stowage.toml`,
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			found := false
			for _, m := range moduleList() {
				if m.Name != args[0] {
					continue
				}
				if found {
					fmt.Fprintln(a.out)
				}
				found = true
				if _, err := io.WriteString(a.out, m.Example); err != nil {
					return fmt.Errorf("write the example: %w", err)
				}
			}
			if !found {
				return ports.Errorf(ports.CodeNotFound, "modules.show", "there is no module %q: \"stowage modules\" lists them", args[0])
			}
			return nil
		},
	}
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
