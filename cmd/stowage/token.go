package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stowage-go/stowage/ports"
)

// The environment that commands read.
const (
	envServer     = "STOWAGE_SERVER"
	envStateDir   = "STOWAGE_STATE_DIR"
	envToken      = "STOWAGE_TOKEN"
	envAdminToken = "STOWAGE_ADMIN_TOKEN"
)

const (
	defaultServer   = "http://127.0.0.1:7420"
	defaultStateDir = "stowage-data"
	maxTokenFile    = 4096
	refusedTimeout  = 5 * time.Second
)

// reach is how a command finds the daemon and proves that it may speak to it.
type reach struct {
	app       *app
	server    string
	stateDir  string
	tokenFile string // of the queue
	adminFile string // of the operator
}

// reachFlags adds --server and --state-dir to a command, and the flags of the tokens that it needs.
func reachFlags(a *app, cmd *cobra.Command, queueToken, adminToken bool) *reach {
	r := &reach{app: a}
	flags := cmd.Flags()
	flags.StringVar(&r.server, "server", "", "address of the daemon (default $"+envServer+", else "+defaultServer+")")
	flags.StringVar(&r.stateDir, "state-dir", "", "state directory where tokens are looked up (default $"+envStateDir+", else "+defaultStateDir+")")
	if queueToken {
		flags.StringVar(&r.tokenFile, "token-file", "", "file whose first line is the token of the queue (default $"+envToken+" itself, else the state directory)")
	}
	if adminToken {
		flags.StringVar(&r.adminFile, "admin-token-file", "", "file whose first line is the admin token (default $"+envAdminToken+" itself, else the state directory)")
	}
	return r
}

func (r *reach) address() string {
	return strings.TrimRight(firstOf(r.server, r.app.getenv(envServer), defaultServer), "/")
}

func (r *reach) state() string { return stateDir(r.app, r.stateDir) }

func stateDir(a *app, flag string) string {
	return firstOf(flag, a.getenv(envStateDir), defaultStateDir)
}

func firstOf(words ...string) string {
	for _, word := range words {
		if word != "" {
			return word
		}
	}
	return ""
}

// queueToken finds the token of a queue: in the file that a flag names, in the environment, or among
// the credentials of the state directory.
func (r *reach) queueToken(id string) (string, error) {
	if err := ports.CheckQueueID("queue", id); err != nil {
		return "", err
	}
	path := filepath.Join(r.state(), "queue-credentials", id)
	return r.token(r.tokenFile, envToken, path, func() error {
		return ports.Errorf(ports.CodeNotFound, "token", "there is no token for the queue %q at %s: see \"stowage queue list\" for what there is, create the queue with \"stowage queue create %s\", or give --state-dir, --token-file or %s", id, absolute(path), id, envToken)
	})
}

// adminToken finds the admin token in the same way.
func (r *reach) adminToken() (string, error) {
	path := adminTokenFile(r.state())
	missing := func() error {
		return ports.Errorf(ports.CodeNotFound, "token", "there is no admin token at %s: start the daemon with \"stowage serve\", which makes it, or give --state-dir, --admin-token-file or %s", absolute(path), envAdminToken)
	}
	token, err := r.token(r.adminFile, envAdminToken, path, missing)
	if errors.Is(err, ports.ErrNotFound) && r.refused() {
		return r.token(r.adminFile, envAdminToken, path, missing)
	}
	return token, err
}

// refused sends the daemon a request without a token and reports whether it was refused. By then the
// daemon has made its token files again, if they were removed to rotate the tokens. That nothing
// answers is no failure here: what is said is that the token is missing.
func (r *reach) refused() bool {
	ctx, cancel := context.WithTimeout(context.Background(), refusedTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.address()+"/statusz", nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusUnauthorized
}

func adminTokenFile(stateDir string) string { return filepath.Join(stateDir, "admin-token") }

// readTokenFile has the token of those who may look and change nothing.
func readTokenFile(stateDir string) string { return filepath.Join(stateDir, "read-token") }

func (r *reach) token(flag, env, path string, missing func() error) (string, error) {
	if flag != "" {
		return readToken(flag)
	}
	if token := strings.TrimSpace(r.app.getenv(env)); token != "" {
		if err := ports.CheckBearer("token", token); err != nil {
			return "", fmt.Errorf("%s: %w", env, err)
		}
		return token, nil
	}
	token, err := readToken(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", missing()
	}
	return token, err
}

// readToken reads the first line of a file. A regular file has to be its owner's alone; a pipe, such
// as a shell makes of <(command), has no mode that would mean anything.
func readToken(path string) (token string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read a token: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("read a token: %w", err)
	}
	if info.IsDir() {
		return "", ports.Errorf(ports.CodeInvalidConfig, "token", "the token file %s is a directory", path)
	}
	if mode := info.Mode(); mode.IsRegular() && mode.Perm()&0o077 != 0 {
		return "", ports.Errorf(ports.CodeInvalidConfig, "token", "others may read or change the token file %s, whose mode is %04o: run chmod 600 on it, and rotate the token if it may have been read", path, mode.Perm())
	}
	first, err := bufio.NewReader(io.LimitReader(f, maxTokenFile)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read a token: %w", err)
	}
	token = strings.TrimSpace(first)
	if err := ports.CheckBearer("token", token); err != nil {
		return "", fmt.Errorf("the first line of %s: %w", path, err)
	}
	return token, nil
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
