package sqlite

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// The digest of each batch, and the tables and columns that a file of its version has: name, type,
// NOT NULL, place in the primary key. Whoever changes one changes a format that files out there have
// (R236, R237).
var (
	digestOf = []string{
		"8550ab77a5a1da86e2aeae03f7808f47f9815d875751473079c8015496afeb5b",
		"de73bfe7fb09420760d1445fadae642b0e84ad8d2833bfcb42973a5bfea3ce74",
		"b83f937f4e0c7a3fa57cada0b22cc397b34aa7dbeab2bedf28bb24db2476d56e",
		"1dbe8b2431d071dee92980047caa378c7810d2a99e2cfd8f53b3ad5dcc3e4a44",
		"0213921234ae90917cd4e7d6bd9ffc4590cc213512832215352e67b900528cda",
	}

	columnsOf = [][]string{
		{
			"checkpoints.pipeline TEXT 1 1", "checkpoints.checkpoint TEXT 1 0",
			"dead_letters.seq INTEGER 0 1", "dead_letters.pipeline TEXT 1 0", "dead_letters.entry TEXT 1 0",
			"resources.kind TEXT 1 1", "resources.id TEXT 1 2", "resources.version INTEGER 1 0", "resources.value TEXT 1 0",
		},
		{
			"delivery_journal.pipeline TEXT 1 1", "delivery_journal.cursor_primary INTEGER 1 0",
			"delivery_journal.cursor_secondary INTEGER 1 0", "delivery_journal.match_id TEXT 1 2",
		},
		{"pauses.target TEXT 1 1", "pauses.id TEXT 1 2"},
		{
			"gate_hits.pipeline TEXT 1 1", "gate_hits.monitor TEXT 1 2", "gate_hits.cursor_primary INTEGER 1 3",
			"gate_hits.cursor_secondary INTEGER 1 4", "gate_hits.event_index INTEGER 1 5", "gate_hits.event_ts INTEGER 1 0",
			"gate_hits.event_json TEXT 1 0",
			"gate_meta.pipeline TEXT 1 1", "gate_meta.monitor TEXT 1 2", "gate_meta.last_emit_ts INTEGER 0 0", "gate_meta.aux BLOB 0 0",
		},
		{},
	}

	indexesOf = [][]string{
		{"CREATE INDEX dead_letters_pipeline ON dead_letters (pipeline, seq)"},
		{"CREATE INDEX delivery_journal_pipeline_primary ON delivery_journal (pipeline, cursor_primary)"},
		{},
		{"CREATE INDEX gate_hits_pipeline_primary ON gate_hits (pipeline, cursor_primary)"},
		{"CREATE INDEX dead_letters_match_id ON dead_letters (pipeline, json_extract(entry, '$.match_id'))"},
	}
)

func TestSchemaVersionIsTheNumberOfSteps(t *testing.T) {
	t.Parallel()
	require.Equal(t, 5, SchemaVersion)
	require.Len(t, migrations, SchemaVersion)
}

func TestEveryVersionHasItsTablesAndIndexes(t *testing.T) {
	t.Parallel()
	var columns, indexes []string
	for i := range migrations {
		digest := sha256.Sum256([]byte(migrations[i]))
		require.Equal(t, digestOf[i], hex.EncodeToString(digest[:]), "step %d", i+1)
		columns, indexes = append(columns, columnsOf[i]...), append(indexes, indexesOf[i]...)

		file, err := openRaw(sqlitefile.InMemory, sqlitefile.Versioned(migrations[:i+1]...))
		require.NoError(t, err)
		require.ElementsMatch(t, columns, textRows(queryRows(t, file, columnsQuery)), "version %d", i+1)
		require.ElementsMatch(t, indexes, textRows(queryRows(t, file, indexesQuery)), "version %d", i+1)
		require.Equal(t, [][]any{{int64(i + 1)}}, queryRows(t, file, "PRAGMA user_version"))
		require.NoError(t, file.Close())
	}
}

const (
	columnsQuery = `SELECT t.name || '.' || c.name || ' ' || c.type || ' ' || c."notnull" || ' ' || c.pk
FROM sqlite_schema AS t, pragma_table_info(t.name) AS c WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'`
	indexesQuery = `SELECT sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL`
)

// textRows are rows of one text, their white space made one space.
func textRows(rows [][]any) []string {
	list := make([]string, len(rows))
	for i, row := range rows {
		list[i] = words(row[0].(string))
	}
	return list
}

func TestAFreshFileHasTheSchemaOfAllSteps(t *testing.T) {
	t.Parallel()
	for _, path := range []string{filepath.Join(t.TempDir(), "storage.sqlite"), sqlitefile.InMemory} {
		for range 2 { // an open that has nothing to do changes nothing (R246)
			s := open(t, Options{Path: path})
			require.Len(t, queryRows(t, s.file, columnsQuery), len(slices.Concat(columnsOf...)))
			require.Len(t, queryRows(t, s.file, indexesQuery), len(slices.Concat(indexesOf...)))
			require.Equal(t, [][]any{{int64(SchemaVersion)}}, queryRows(t, s.file, "PRAGMA user_version"))
			mode := "wal"
			if path == sqlitefile.InMemory {
				mode = "memory" // R257
			}
			require.Equal(t, [][]any{{mode}}, queryRows(t, s.file, "PRAGMA journal_mode"))
			require.NoError(t, s.Close())
		}
	}
}

// makeFixtures rewrites testdata: go test -run TestFixtures -make-fixtures. What is there stands for the
// files that older versions have left, and should stay as it is.
var makeFixtures = flag.Bool("make-fixtures", false, "write the files of older schema versions anew")

// The data of each version's tables. Letters have no payload, a tagged one, and the bare match of old;
// one stands twice; some are gone.
var fixtureData = [][]string{
	{
		`INSERT INTO resources VALUES ('pipeline', 'quakes', 3, '{"b": 1, "a": [1, 2]}'), ('monitor', 'quakes', 1, '"é"'), ('pipeline', 'tides', 1, 'null')`,
		`INSERT INTO checkpoints VALUES
('plain', '{"cursor":{"primary":0,"secondary":0}}'),
('quakes', '{"cursor":{"primary":9007199254740993,"secondary":2},"module":null}'),
('tides', '{"cursor":{"primary":4,"secondary":5},"module":"ndjson"}')`,
		`INSERT INTO dead_letters (pipeline, entry) VALUES
('quakes', '{"match_id":"m-1","monitor":"strong","sink":"alerts","cursor":{"primary":1,"secondary":0},"attempts":3,"reason":"no payload"}'),
('quakes', '{"match_id":"gone","monitor":"strong","sink":"alerts","cursor":{"primary":1,"secondary":0},"attempts":3,"reason":"replayed"}'),
('tides', '{"match_id":"m-1","monitor":"high","sink":"alerts","cursor":{"primary":1,"secondary":0},"attempts":1,"reason":"of another pipeline"}'),
('quakes', '{"match_id":"m-2","monitor":"strong","sink":"alerts","cursor":{"primary":2,"secondary":0},"attempts":3,"reason":"tagged","payload":{"type":"match","data":{"match_id":"m-2","pipeline":"quakes","monitor":"strong","cursor":{"primary":2,"secondary":0},"event_index":0,"event_ts":1700000000000,"event":{"mag":4.50}}}}'),
('quakes', '{"match_id":"m-3","monitor":"strong","sink":"alerts","cursor":{"primary":3,"secondary":0},"attempts":3,"reason":"bare","payload":{"match_id":"m-3","pipeline":"quakes","monitor":"strong","cursor":{"primary":3,"secondary":0},"event":{"mag":5}}}'),
('quakes', '{"match_id":"m-1","monitor":"strong","sink":"alerts","cursor":{"primary":1,"secondary":0},"attempts":4,"reason":"twice"}'),
('quakes', 'no JSON'),
('quakes', x'00ff'),
('quakes', '{"match_id":"last"}')`,
		`DELETE FROM dead_letters WHERE json_extract(CASE WHEN json_valid(entry) THEN entry ELSE 'null' END, '$.match_id') IN ('gone', 'last')`,
	},
	{`INSERT INTO delivery_journal VALUES ('quakes', 3, 1, 'd-2'), ('quakes', 3, 0, 'd-1'), ('tides', 1, 0, 'd-1')`},
	{`INSERT INTO pauses VALUES ('sink', 'quakes/alerts'), ('pipeline', 'tides')`},
	{
		`INSERT INTO gate_hits VALUES ('quakes', 'strong', 3, 0, 1, 1700000000001, '{"mag":5}'), ('quakes', 'strong', 3, 0, 0, 1700000000000, '{"mag":4}')`,
		`INSERT INTO gate_meta VALUES ('quakes', 'strong', 1700000000000, x'0001'), ('quakes', 'empty', NULL, x''), ('quakes', 'none', NULL, NULL)`,
	},
}

func fixturePath(version int) string { return fmt.Sprintf("testdata/version%d.sqlite", version) }

func TestFixtures(t *testing.T) {
	if !*makeFixtures {
		t.Skip("the files are there, and are only written anew with -make-fixtures")
	}
	for version := range len(fixtureData) + 1 {
		path := fixturePath(version)
		require.NoError(t, os.RemoveAll(path))
		file, err := openRaw(path, sqlitefile.Versioned(migrations[:version]...))
		require.NoError(t, err)
		for _, statements := range fixtureData[:version] {
			execute(t, file, statements...)
		}
		require.NoError(t, file.Close())
	}
}

// copyFixture gives a test a file of its own.
func copyFixture(t testing.TB, version int) string {
	t.Helper()
	data, err := os.ReadFile(fixturePath(version))
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "storage.sqlite")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

func TestOlderFilesAreBroughtUpWithTheirData(t *testing.T) {
	t.Parallel()
	for version := range len(fixtureData) + 1 {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			t.Parallel()
			path := copyFixture(t, version)
			for range 2 {
				s := open(t, Options{Path: path})
				require.Equal(t, [][]any{{int64(5)}}, queryRows(t, s.file, "PRAGMA user_version"))
				require.Len(t, queryRows(t, s.file, columnsQuery), len(slices.Concat(columnsOf...)))
				require.Len(t, queryRows(t, s.file, indexesQuery), len(slices.Concat(indexesOf...)))
				requireFixtureData(t, s, version)
				requireIndexMatchesFile(t, s)
				require.NoError(t, s.Close())
			}
		})
	}
}

// requireFixtureData asks for everything that a fixture of the version holds.
func requireFixtureData(t *testing.T, s *Storage, version int) {
	t.Helper()
	ctx := t.Context()
	has := func(n int) bool { return version >= n }
	ifHas := func(n int, want any) any {
		if has(n) {
			return want
		}
		return nil
	}
	requireList := func(want any, got any, err error) {
		t.Helper()
		require.NoError(t, err)
		if want == nil {
			require.Empty(t, got)
			return
		}
		require.Equal(t, want, got)
	}

	page, err := s.ListResources(ctx, "pipeline", types.ResourceListOptions{})
	requireList(ifHas(1, []types.Resource{
		{Kind: "pipeline", ID: "quakes", Version: 3, Value: json.RawMessage(`{"b": 1, "a": [1, 2]}`)},
		{Kind: "pipeline", ID: "tides", Version: 1, Value: json.RawMessage(`null`)},
	}), page.Resources, err)
	kinds, err := s.ResourceKinds(ctx)
	requireList(ifHas(1, []types.ResourceKind{"monitor", "pipeline"}), kinds, err)

	module := "ndjson"
	checkpoints, err := s.ListCheckpoints(ctx)
	requireList(ifHas(1, []types.PipelineCheckpoint{
		{Pipeline: "plain"},
		{Pipeline: "quakes", Checkpoint: types.Checkpoint{Cursor: types.Cursor{Primary: 9007199254740993, Secondary: 2}}},
		{Pipeline: "tides", Checkpoint: types.Checkpoint{Cursor: types.Cursor{Primary: 4, Secondary: 5}, Module: &module}},
	}), checkpoints, err)

	requireFixtureLetters(t, s, has(1))

	deliveries, err := s.Delivered(ctx, "quakes", types.Cursor{}, types.Cursor{Primary: 3, Secondary: 1})
	requireList(ifHas(2, []types.Delivery{
		{Cursor: types.Cursor{Primary: 3}, MatchID: "d-1"}, {Cursor: types.Cursor{Primary: 3, Secondary: 1}, MatchID: "d-2"},
	}), deliveries, err)

	pauses, err := s.ListPauses(ctx)
	requireList(ifHas(3, []types.Pause{{Target: "pipeline", ID: "tides"}, {Target: "sink", ID: "quakes/alerts"}}), pauses, err)

	hits, err := s.Hits(ctx, "quakes", "strong", 0)
	requireList(ifHas(4, []types.GateHit{
		{Monitor: "strong", Cursor: types.Cursor{Primary: 3}, Index: 0, TS: 1700000000000, Event: json.RawMessage(`{"mag":4}`)},
		{Monitor: "strong", Cursor: types.Cursor{Primary: 3}, Index: 1, TS: 1700000000001, Event: json.RawMessage(`{"mag":5}`)},
	}), hits, err)
	ts := int64(1700000000000)
	for monitor, want := range map[types.MonitorID]types.GateMeta{
		"strong": {LastEmitTS: &ts, Aux: []byte{0, 1}}, "empty": {Aux: []byte{}}, "none": {},
	} {
		meta, found, err := s.GateMeta(ctx, "quakes", monitor)
		require.NoError(t, err)
		require.Equal(t, has(4), found)
		if found {
			require.Equal(t, want, meta)
		}
	}
}

func requireFixtureLetters(t *testing.T, s *Storage, there bool) {
	t.Helper()
	letters, err := s.ListDeadLetters(t.Context(), "quakes", types.LetterQuery{Take: 100})
	require.NoError(t, err)
	counts, err := s.CountDeadLetters(t.Context())
	require.NoError(t, err)
	if !there {
		require.Empty(t, letters)
		require.Empty(t, counts)
		return
	}
	require.Equal(t, []types.LetterCount{{Pipeline: "quakes", Count: 6}, {Pipeline: "tides", Count: 1}}, counts)
	var got []string
	for _, l := range letters {
		if l.Err != nil {
			require.ErrorIs(t, l.Err, ports.ErrUndecodable)
			require.NotContains(t, l.Err.Error(), "no JSON")
			got = append(got, fmt.Sprint(l.Position, " undecodable"))
			continue
		}
		payload := "nothing"
		if l.Letter.Payload != nil {
			payload = string(l.Letter.Payload.Match.Event)
		}
		got = append(got, fmt.Sprint(l.Position, " ", l.Letter.MatchID, " ", l.Letter.Reason, " ", l.Letter.Attempts, " ", payload))
	}
	require.Equal(t, []string{
		"1 m-1 no payload 3 nothing", `4 m-2 tagged 3 {"mag":4.50}`, `5 m-3 bare 3 {"mag":5}`, "6 m-1 twice 4 nothing",
		"7 undecodable", "8 undecodable",
	}, got)
	require.Equal(t, [][]any{{`"no JSON"`}, {`"00FF"`}}, queryRows(t, s.file, "SELECT entry FROM dead_letters WHERE seq IN (7, 8) ORDER BY seq"),
		"what cannot be decoded is kept")
	one, found, err := s.GetDeadLetter(t.Context(), "quakes", "m-1")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, letters[0], one, "the first of two")
}

// A change of a letter that stands twice goes to both, and its deletion takes both.
func TestALetterThatStandsTwiceIsOne(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Path: copyFixture(t, 4)})
	letter := fixture.DeadLetter(1)
	letter.MatchID = "m-1"
	require.NoError(t, s.RecordDeadLetter(t.Context(), "quakes", letter))
	letters, err := s.ListDeadLetters(t.Context(), "quakes", types.LetterQuery{Take: 100})
	require.NoError(t, err)
	require.Len(t, letters, 6)
	require.Equal(t, letter, letters[0].Letter)
	require.Equal(t, letter, letters[3].Letter)
	requireIndexMatchesFile(t, s)

	n, err := s.DeleteDeadLetters(t.Context(), "quakes", []types.MatchID{"m-1"})
	require.NoError(t, err)
	require.EqualValues(t, 2, n)
	requireIndexMatchesFile(t, s)

	fresh := fixture.DeadLetter(2)
	require.NoError(t, s.RecordDeadLetter(t.Context(), "quakes", fresh))
	stored, _, err := s.GetDeadLetter(t.Context(), "quakes", fresh.MatchID)
	require.NoError(t, err)
	require.EqualValues(t, 10, stored.Position, "a position that was given out is never given out again")
}

// A step that fails takes the others with it (R248).
func TestAMigrationThatFailsLeavesTheVersionAndTheTables(t *testing.T) {
	t.Parallel()
	for version := 1; version <= 4; version++ {
		for _, obstacle := range []string{"gate_meta", "pauses", "dead_letters_match_id"} {
			t.Run(fmt.Sprint(version, obstacle), func(t *testing.T) {
				t.Parallel()
				path := copyFixture(t, version)
				old := sqlitefile.Versioned(migrations[:version]...)
				file, err := openRaw(path, old)
				require.NoError(t, err)
				if len(queryRows(t, file, "SELECT 1 FROM sqlite_schema WHERE name = '"+obstacle+"'")) > 0 {
					require.NoError(t, file.Close())
					return // a table of this version is no obstacle
				}
				execute(t, file, "CREATE TABLE "+obstacle+" (mine TEXT)")
				before := dump(t, file)
				require.NoError(t, file.Close())

				_, err = Open(t.Context(), Options{Path: path, Log: fixture.Logger(t)})
				require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
				require.ErrorContains(t, err, path)

				file, err = openRaw(path, old)
				require.NoError(t, err)
				require.Equal(t, before, dump(t, file))
				require.NoError(t, file.Close())
			})
		}
	}
}

// dump is everything in a database: its version, its schema, and the rows of its tables.
func dump(t testing.TB, file *sqlitefile.File) map[string][][]any {
	t.Helper()
	all := map[string][][]any{
		"version": queryRows(t, file, "PRAGMA user_version"),
		"schema":  queryRows(t, file, "SELECT name, sql FROM sqlite_schema ORDER BY name"),
	}
	for _, table := range queryRows(t, file, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name") {
		all[table[0].(string)] = queryRows(t, file, "SELECT * FROM "+table[0].(string)+" ORDER BY rowid") //nolint:unqueryvet // whatever the columns are
	}
	return all
}

func TestOtherVersionsAndForeignFilesAreRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		statements []string
		names      string
	}{
		"one version ahead":     {[]string{"PRAGMA user_version = 6"}, "version 6"},
		"far ahead":             {[]string{"PRAGMA user_version = 99"}, "version 99"},
		"negative":              {[]string{"PRAGMA user_version = -1"}, "version -1"},
		"the least":             {[]string{"PRAGMA user_version = -2147483648"}, "version -2147483648"},
		"no version and tables": {[]string{"PRAGMA user_version = 0"}, "no schema version"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := copyFixture(t, 4)
			plantPragma(t, path, test.statements...)
			before := digests(t, filepath.Dir(path))
			for range 2 {
				_, err := Open(t.Context(), Options{Path: path, Log: fixture.Logger(t)})
				require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
				require.ErrorIs(t, err, ports.ErrUnsupported)
				require.ErrorContains(t, err, path)
				require.ErrorContains(t, err, test.names)
				require.Equal(t, before, digests(t, filepath.Dir(path)))
			}
		})
	}
}

// plantPragma sets a value of the header. The schema says so many steps that none is refused.
func plantPragma(t testing.TB, path string, statements ...string) {
	t.Helper()
	file, err := openRaw(path, sqlitefile.Versioned(migrations[:4]...))
	require.NoError(t, err)
	execute(t, file, statements...)
	require.NoError(t, file.Close())
}

// A database of another program that counts its versions as we do is not taken for ours.
func TestADatabaseWithoutOurTablesIsNotAdopted(t *testing.T) {
	t.Parallel()
	for version := 1; version <= 5; version++ {
		path := filepath.Join(t.TempDir(), "notes.sqlite")
		steps := make([]string, version)
		for i := range steps {
			steps[i] = fmt.Sprintf("CREATE TABLE notes%d (text TEXT)", i)
		}
		file, err := openRaw(path, sqlitefile.Versioned(steps...))
		require.NoError(t, err)
		require.NoError(t, file.Close())
		before := digests(t, filepath.Dir(path))
		_, err = Open(t.Context(), Options{Path: path, Log: fixture.Logger(t)})
		require.ErrorIs(t, err, ports.ErrUnsupported)
		require.ErrorContains(t, err, path)
		require.ErrorContains(t, err, "it is another program's")
		require.Equal(t, before, digests(t, filepath.Dir(path)))
	}
}

// digests names everything in a directory, with mode and SHA-256 (R250).
func digests(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		all[path] = info.Mode().String()
		if d.IsDir() {
			return nil
		}
		data, err := os.ReadFile(path)
		all[path] += fmt.Sprintf(" %x", sha256.Sum256(data))
		return err
	}))
	return all
}

func words(sql string) string { return strings.Join(strings.Fields(sql), " ") }
