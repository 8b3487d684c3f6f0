package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stowage-go/stowage/ports"
)

const defaultConfigFile = "stowage.toml"

func configCommand(a *app) *cobra.Command {
	return group("config", "Write and check configurations",
		`Write a configuration to start from, and check one without opening or creating anything.`,
		`  stowage config init
  stowage config check stowage.toml`,
		configInitCommand(a),
		configCheckCommand(a),
	)
}

func configInitCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a configuration to start from",
		Long: `Write a configuration with the built-in defaults and what every key is for to FILE, or to stowage.toml.
A file that exists is left alone, and the exit code is 4. "-" writes to standard output.`,
		Example: `  stowage config init
  stowage config init /etc/stowage/stowage.toml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			path := defaultConfigFile
			if len(args) == 1 {
				path = args[0]
			}
			if path == "-" {
				_, err := a.out.WriteString(exampleConfig())
				return err
			}
			if path == "" {
				return usagef("the name of the file is empty")
			}
			if err := writeNew(path, exampleConfig()); err != nil {
				return err
			}
			_, err := fmt.Fprintf(a.out, "wrote %s\nstart with: stowage serve --config %s\n", printable(path), printable(path))
			return err
		},
	}
}

// writeNew writes a file that must not exist yet, and leaves nothing behind if it fails.
func writeNew(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // a configuration holds no secret
	if errors.Is(err, fs.ErrExist) {
		return ports.Errorf(ports.CodeAlreadyExists, "config.init", "%s exists, and was left alone: choose another name", path)
	}
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write the configuration: %w", err), os.Remove(path))
	}
	return nil
}

func configCheckCommand(a *app) *cobra.Command {
	var stateDir string
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration without opening anything",
		Long: `Check FILE, or stowage.toml: its form, its keys, the modules that it names and their settings, the
expressions and gates of its pipelines, and that no path is used twice. What it configures is listed, with the storage that is there without being
configured. Nothing is opened or created. What is wrong is reported with file, line and key,
and the exit code is 2.`,
		Example: `  stowage config check stowage.toml`,
		Args:    cobra.MaximumNArgs(1),
	}
	output := outputFlag(cmd)
	cmd.Flags().StringVar(&stateDir, "state-dir", "", "state directory, in place of the configured one")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path := defaultConfigFile
		if len(args) == 1 {
			path = args[0]
		}
		stores, err := checkConfig(cmd.Context(), path, stateDir)
		if err != nil {
			return err
		}
		return emit(a.out, output.value, data{
			whole: struct {
				Stores []configuredStore `json:"stores"`
			}{stores},
			items: anySlice(stores),
			table: func(t *table) {
				t.row("KIND", "NAME", "MODULE", "PATHS")
				for _, s := range stores {
					t.row(s.Kind, firstOf(s.Name, "-"), s.Module, strings.Join(s.Paths, " "))
				}
			},
		})
	}
	return cmd
}

// configuredStore is a store, a source or a sink of a configuration that was found good.
type configuredStore struct {
	Kind string `json:"kind"`
	// Name is empty for the storage, of which there is one, that of the pipeline for a source, and
	// pipeline/sink for a sink.
	Name   string `json:"name"`
	Module string `json:"module"`
	// Paths are the absolute paths that the store owns.
	Paths []string `json:"paths,omitempty"`
}
