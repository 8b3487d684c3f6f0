package sqlitefile

import (
	"database/sql/driver"
	"errors"
	"io"
	"net/url"
	"strconv"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// Conn is one connection to the file. It is lent to a function for the length of a call and must not
// be kept.
type Conn struct {
	file  *File
	db    *sqlite3.SQLiteConn
	stmts map[string]driver.Stmt
	op    string // the operation that uses it, for errors

	reads    bool // writes are refused
	insertID int64
	writes   int // statements that changed something, ever
}

// Exec runs one statement to its end and returns how many rows it changed. The statement is prepared
// once a connection and kept, so query should be a constant. Arguments are int, int64, string,
// []byte (nil is the empty BLOB, never NULL), *int64 (nil is NULL) or nil.
func (c *Conn) Exec(query string, args ...any) (changed int64, err error) {
	stmt, err := c.prepare(query)
	if err != nil {
		return 0, err
	}
	// The driver's context path would interrupt whole transactions.
	result, err := stmt.Exec(bindings(args)) //nolint:staticcheck // as above
	if err != nil {
		return 0, c.file.engineError(c.op, err)
	}
	// The driver's result cannot fail.
	c.insertID, _ = result.LastInsertId()
	changed, _ = result.RowsAffected()
	if changed > 0 {
		c.writes++
	}
	return changed, nil
}

// control runs a statement that begins or ends a transaction, or a part of one. The engine counts no
// rows for it: what it would tell are those of an earlier statement.
func (c *Conn) control(query string) error {
	stmt, err := c.prepare(query)
	if err == nil {
		_, err = stmt.Exec(nil) //nolint:staticcheck // see Exec
	}
	return c.file.engineError(c.op, err)
}

// LastInsertID is the rowid of the latest insert by Exec on this connection.
func (c *Conn) LastInsertID() int64 { return c.insertID }

// Query runs one statement to its end and calls each for every row, in order. An error of each stops
// it and is returned as it is. Arguments are as for Exec.
func (c *Conn) Query(query string, each func(Row) error, args ...any) error {
	stmt, err := c.prepare(query)
	if err != nil {
		return err
	}
	rows, err := stmt.Query(bindings(args)) //nolint:staticcheck // see Exec
	if err != nil {
		return c.file.engineError(c.op, err)
	}
	// Closing resets the statement, so that none is left open in the middle of a read (R031).
	defer rows.Close()
	row := make(Row, len(rows.Columns()))
	for {
		err := rows.Next(row)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return c.file.engineError(c.op, err)
		}
		if err := each(row); err != nil {
			return err
		}
	}
}

func (c *Conn) prepare(query string) (driver.Stmt, error) {
	if stmt, ok := c.stmts[query]; ok {
		return stmt, nil
	}
	stmt, err := c.db.Prepare(query)
	if err != nil {
		return nil, c.file.engineError(c.op, err)
	}
	c.stmts[query] = stmt
	return stmt, nil
}

func bindings(args []any) []driver.Value {
	values := make([]driver.Value, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case int:
			values[i] = int64(v)
		case []byte:
			if v == nil {
				v = []byte{}
			}
			values[i] = v
		case *int64:
			if v != nil {
				values[i] = *v
			}
		default:
			values[i] = v // the driver refuses what it cannot bind
		}
	}
	return values
}

// Row is one row of a result. It is valid during the call that it is handed to; strings and byte
// slices in it are copies and may be kept.
type Row []driver.Value

// Value returns column i as SQLite stores it: int64, float64, string for TEXT, []byte for BLOB, nil
// for NULL. The empty BLOB is a []byte of length 0, not nil.
func (r Row) Value(i int) any { return r[i] }

// StorageClass names what [Row.Value] returned as SQLite does, for messages.
func StorageClass(value any) string {
	switch value.(type) {
	case nil:
		return "NULL"
	case int64:
		return "INTEGER"
	case float64:
		return "REAL"
	case string:
		return "TEXT"
	}
	return "BLOB"
}

// Int64 returns column i if it holds an integer, otherwise 0.
func (r Row) Int64(i int) int64 {
	v, _ := r[i].(int64)
	return v
}

// Text returns column i if it holds text, otherwise "".
func (r Row) Text(i int) string {
	v, _ := r[i].(string)
	return v
}

// Bytes returns column i if it holds a BLOB, otherwise nil.
func (r Row) Bytes(i int) []byte {
	v, _ := r[i].([]byte)
	return v
}

// connMode says what a connection is for.
type connMode string

const (
	modeLook   connMode = "ro"     // reads what is there and changes nothing
	modeOpen   connMode = "rw"     // opens what is there
	modeMemory connMode = "memory" // makes a database that nobody else sees
)

// dial opens a connection without any setting that would write.
func dial(path string, mode connMode, busy time.Duration) (*sqlite3.SQLiteConn, error) {
	// A URI keeps the driver and the engine from reading meaning into characters of the path.
	dsn := "file:" + escapePath(path) + "?mode=" + string(mode) + "&_mutex=no&_busy_timeout=" +
		strconv.FormatInt(busy.Milliseconds(), 10)
	conn, err := (&sqlite3.SQLiteDriver{}).Open(dsn)
	if err != nil {
		return nil, err
	}
	return conn.(*sqlite3.SQLiteConn), nil
}

func escapePath(path string) string {
	u := url.URL{Path: path}
	return u.EscapedPath()
}

// connect opens a connection for work. Readers cannot write through it.
func (f *File) connect(reads bool) (*Conn, error) {
	db, err := dial(f.path, modeOpen, f.o.BusyTimeout)
	if err != nil {
		return nil, err
	}
	return f.equip(db, reads)
}

// equip gives a connection its settings. It is closed if that fails.
func (f *File) equip(db *sqlite3.SQLiteConn, reads bool) (*Conn, error) {
	c := &Conn{file: f, db: db, stmts: make(map[string]driver.Stmt)}
	for _, pragma := range f.pragmas() {
		if err := c.run(pragma); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	if err := c.queryOnly(reads); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return c, nil
}

// queryOnly makes the connection refuse writes, or take them.
func (c *Conn) queryOnly(on bool) error {
	if c.reads == on {
		return nil
	}
	err := c.run("PRAGMA query_only = " + strconv.FormatBool(on))
	if err == nil {
		c.reads = on
	}
	return err
}

func (f *File) pragmas() []string {
	return []string{
		"PRAGMA synchronous = " + map[Durability]string{DurabilityFull: "FULL", DurabilityNormal: "NORMAL"}[f.o.Durability],
		"PRAGMA cache_size = -" + strconv.Itoa(f.o.CacheBytes>>10),
		"PRAGMA temp_store = MEMORY",
		"PRAGMA trusted_schema = OFF",
		"PRAGMA wal_autocheckpoint = 0", // checkpoints run beside the writer
		"PRAGMA journal_size_limit = " + strconv.Itoa(checkpointBytes),
	}
}

// close ends the connection and its statements.
func (c *Conn) close() error {
	var errs []error
	for _, stmt := range c.stmts {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, c.db.Close())...)
}
