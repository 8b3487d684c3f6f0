package localqueue

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stowage-go/stowage/ports"
)

const (
	tokenBytes = 32
	// maxOldTokens is how many earlier tokens of a queue may work at the same time. The oldest stops
	// working when there is one more rotation within their overlaps.
	maxOldTokens = 16
	maxFileBytes = 4096
	tempPrefix   = ".new-"
)

// credentials keeps one token a queue (R141), each in a file of mode 0600 (R142). A file's first line
// is the token; each further line is the SHA-256 of an earlier one and the millisecond since the
// epoch at which it stops working. In memory there are digests alone (R145).
type credentials struct {
	dir   string
	clock ports.Clock

	mu    sync.RWMutex
	byID  map[string]*credential
	dummy [sha256.Size]byte // random; what a token for an unknown queue is compared with
}

type credential struct {
	current [sha256.Size]byte
	old     []oldToken
}

type oldToken struct {
	digest [sha256.Size]byte
	until  int64 // milliseconds since the epoch
}

// openCredentials makes or checks the directory, and takes away what an interrupted write left.
func openCredentials(op, dir string, clock ports.Clock) (*credentials, error) {
	if _, err := makeDirectory(dir); err != nil {
		return nil, setupError(op, "the directory of the queues' tokens %s cannot be made: %w", dir, err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return nil, setupError(op, "the directory of the queues' tokens %s cannot be looked at: %w", dir, err)
	}
	if problem := looseness(&st); problem != "" {
		return nil, setupError(op, "the directory of the queues' tokens %s %s: make it 0700 and your own, and rotate the tokens if others could read them", dir, problem)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, setupError(op, "the directory of the queues' tokens %s cannot be read: %w", dir, err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tempPrefix) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return nil, setupError(op, "an unfinished token file in %s cannot be removed: %w", dir, err)
			}
		}
	}
	c := &credentials{dir: dir, clock: clock, byID: make(map[string]*credential)}
	rand.Read(c.dummy[:])
	return c, nil
}

// looseness says what lets others at a file or directory, "" if nothing does.
func looseness(st *unix.Stat_t) string {
	mode := uint32(st.Mode) //nolint:unconvert // its type differs between systems
	switch {
	case int(st.Uid) != os.Geteuid():
		return fmt.Sprintf("belongs to user %d, not to %d", st.Uid, os.Geteuid())
	case mode&0o077 != 0:
		return fmt.Sprintf("has mode %04o, which lets others in", mode&0o7777)
	}
	return ""
}

// load reads the token of a queue, and makes one if there is none.
func (c *credentials) load(op, id string) error {
	cred, _, err := c.read(op, id)
	if errors.Is(err, os.ErrNotExist) {
		return c.create(op, id)
	}
	if err != nil {
		return err
	}
	c.set(id, cred)
	return nil
}

// stored reports whether the queue has a token file, whatever is in it.
func (c *credentials) stored(id string) bool {
	_, err := os.Lstat(filepath.Join(c.dir, id))
	return err == nil
}

func (c *credentials) set(id string, cred *credential) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cred == nil {
		delete(c.byID, id)
		return
	}
	c.byID[id] = cred
}

func (c *credentials) has(id string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.byID[id] != nil
}

// create gives a queue a fresh token, whatever was there.
func (c *credentials) create(op, id string) error {
	token := newToken()
	cred := &credential{current: sha256.Sum256([]byte(token))}
	if err := c.write(op, id, token, cred); err != nil {
		return err
	}
	c.set(id, cred)
	return nil
}

// rotate makes a fresh token; the old one works for the overlap.
func (c *credentials) rotate(op, id string, overlap time.Duration) (string, error) {
	old, _, err := c.read(op, id)
	if err != nil {
		return "", c.readError(op, id, err)
	}
	now := c.clock.Now()
	token := newToken()
	cred := &credential{current: sha256.Sum256([]byte(token))}
	if overlap > 0 {
		cred.old = append(cred.old, oldToken{old.current, now.Add(overlap).UnixMilli()})
	}
	for _, o := range old.old {
		if o.until > now.UnixMilli() && len(cred.old) < maxOldTokens {
			cred.old = append(cred.old, o)
		}
	}
	if err := c.write(op, id, token, cred); err != nil {
		return "", err
	}
	c.set(id, cred)
	return token, nil
}

// token reads the current token of a queue.
func (c *credentials) token(op, id string) (string, error) {
	cred, token, err := c.read(op, id)
	if err != nil {
		return "", c.readError(op, id, err)
	}
	c.mu.RLock()
	known := c.byID[id]
	c.mu.RUnlock()
	if known == nil || known.current != cred.current {
		return "", setupError(op, "the token file %s was changed while the owner runs: rotate the token, or restart", c.path(id))
	}
	return token, nil
}

func (c *credentials) readError(op, id string, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return setupError(op, "the token file %s is gone: restart the owner to make a new one", c.path(id))
	}
	return err
}

// remove takes the token of a queue away.
func (c *credentials) remove(op, id string) error {
	c.set(id, nil)
	err := os.Remove(c.path(id))
	if err == nil || errors.Is(err, os.ErrNotExist) {
		err = syncDirectory(c.dir)
	}
	if err != nil {
		return setupError(op, "the token file %s cannot be removed: %w", c.path(id), err)
	}
	return nil
}

// check reports whether the token is one of the queue. It takes as long for an unknown queue as for a
// wrong token.
func (c *credentials) check(id, token string) bool {
	digest := sha256.Sum256([]byte(token))
	now := c.clock.Now().UnixMilli()
	c.mu.RLock()
	defer c.mu.RUnlock()
	cred := c.byID[id]
	if cred == nil {
		cred = &credential{current: c.dummy} // no token has this digest
	}
	good := subtle.ConstantTimeCompare(digest[:], cred.current[:])
	for _, o := range cred.old {
		if now < o.until {
			good |= subtle.ConstantTimeCompare(digest[:], o.digest[:])
		}
	}
	return good == 1
}

func (c *credentials) path(id string) string { return filepath.Join(c.dir, id) }

func newToken() string {
	var b [tokenBytes]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// read reads the file of a queue. A missing one is os.ErrNotExist; every other error says what is
// wrong, and none holds what is in the file.
func (c *credentials) read(op, id string) (*credential, string, error) {
	path := c.path(id)
	// O_NONBLOCK keeps a named pipe from holding the owner up.
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, "", err
	case errors.Is(err, unix.ELOOP):
		return nil, "", setupError(op, "the token file %s is a symbolic link: put the file itself there, mode 0600", path)
	case err != nil:
		return nil, "", setupError(op, "the token file %s cannot be opened: %w", path, err)
	}
	text, err := readToken(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, "", setupError(op, "the token file %s %w: run chmod 600 on it, or remove it and restart to get a new token", path, err)
	}
	cred, token, ok := parseCredential(text)
	if !ok {
		return nil, "", setupError(op, "the token file %s does not hold a token of %d bytes: remove it to get a new token", path, tokenBytes)
	}
	return cred, token, nil
}

func readToken(file *os.File) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return "", fmt.Errorf("cannot be looked at: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return "", fmt.Errorf("cannot be looked at: %w", err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("is a %s", kindOf(info.Mode()))
	}
	if st.Nlink > 1 {
		return "", errors.New("has more than one name")
	}
	if problem := looseness(&st); problem != "" {
		return "", errors.New(problem)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	return string(text), nil
}

func parseCredential(text string) (cred *credential, token string, ok bool) {
	body, whole := strings.CutSuffix(text, "\n")
	if !whole || len(text) > maxFileBytes {
		return nil, "", false
	}
	lines := strings.Split(body, "\n")
	if raw, err := base64.RawURLEncoding.Strict().DecodeString(lines[0]); err != nil || len(raw) != tokenBytes {
		return nil, "", false
	}
	cred = &credential{current: sha256.Sum256([]byte(lines[0]))}
	for _, line := range lines[1:] {
		digest, end, _ := strings.Cut(line, " ")
		raw, err := hex.DecodeString(digest)
		until, endErr := strconv.ParseInt(end, 10, 64)
		if err != nil || endErr != nil || len(raw) != sha256.Size || len(cred.old) == maxOldTokens {
			return nil, "", false
		}
		cred.old = append(cred.old, oldToken{[sha256.Size]byte(raw), until})
	}
	return cred, lines[0], true
}

// write replaces the file of a queue: whole or not at all, and with mode 0600 from its first moment.
func (c *credentials) write(op, id, token string, cred *credential) error {
	var text strings.Builder
	fmt.Fprintln(&text, token)
	for _, o := range cred.old {
		fmt.Fprintf(&text, "%x %d\n", o.digest, o.until)
	}
	temp := filepath.Join(c.dir, tempPrefix+rand.Text())
	err := writeNew(temp, text.String())
	if err == nil {
		err = os.Rename(temp, c.path(id))
	}
	if err != nil {
		if removeErr := os.Remove(temp); removeErr != nil && !errors.Is(removeErr, os.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
		return setupError(op, "the token file %s cannot be written: %w", c.path(id), err)
	}
	if err := syncDirectory(c.dir); err != nil {
		return setupError(op, "the token file %s cannot be made durable: %w", c.path(id), err)
	}
	return nil
}

func writeNew(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Sync(), file.Close())
}
