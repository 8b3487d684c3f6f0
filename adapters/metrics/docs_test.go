package metrics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// tableRows are the rows of the document's tables, without the separators.
func tableRows(t testing.TB, path string) (rows []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| `stowage_") {
			rows = append(rows, strings.TrimSpace(line))
		}
	}
	return rows
}

// The table and the registry change together.
func TestTheDocumentHasEveryMetric(t *testing.T) {
	t.Parallel()
	gathered, err := registryOf(t, fixedOptions(t)).Gather()
	require.NoError(t, err)
	var want []string
	for _, family := range gathered {
		var labels []string
		for _, label := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+label.GetName()+"`")
		}
		want = append(want, fmt.Sprintf("| `%s` | %s | %s | %s |",
			family.GetName(), strings.ToLower(family.GetType().String()), strings.Join(labels, ", "), family.GetHelp()))
	}
	require.Len(t, want, len(newFamilies().all), "the fixed options show every family")
	rows := tableRows(t, "../../docs/operating/metrics.md")
	slices.Sort(rows)
	slices.Sort(want)
	require.Equal(t, want, rows)
}

// histogramSuffixes are what the series of a histogram end in.
var histogramSuffixes = []string{"_bucket", "_sum", "_count"}

// seriesNames are those that a query may use, and the families that they belong to.
func seriesNames(t testing.TB) map[string]string {
	t.Helper()
	gathered, err := registryOf(t, fixedOptions(t)).Gather()
	require.NoError(t, err)
	names := map[string]string{}
	for _, family := range gathered {
		if family.GetType().String() != "HISTOGRAM" {
			names[family.GetName()] = family.GetName()
			continue
		}
		for _, suffix := range histogramSuffixes {
			names[family.GetName()+suffix] = family.GetName()
		}
	}
	return names
}

// wantSeries asserts that a query names series that exist, and notes their families.
func wantSeries(t testing.TB, known map[string]string, query, where string, used map[string]bool) {
	t.Helper()
	found := regexp.MustCompile(`\bstowage_\w+`).FindAllString(query, -1)
	require.NotEmpty(t, found, "%s: %s", where, query)
	for _, name := range found {
		require.Contains(t, known, name, "%s: %s", where, query)
		used[known[name]] = true
	}
}

// dashboard is what the test looks at of a dashboard of Grafana.
type dashboard struct {
	ID            *int
	UID           string
	Title         string
	SchemaVersion int
	Templating    struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []struct {
		ID         int
		Type       string
		Title      string
		Collapsed  bool
		Datasource struct{ Type, UID string }
		GridPos    struct{ X, Y, W, H int }
		Targets    []struct {
			RefID, Expr string
			Datasource  struct{ Type, UID string }
		}
	}
}

func TestTheDashboardAsksForMetricsThatExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operating/grafana-dashboard.json")
	require.NoError(t, err)
	var board dashboard
	require.NoError(t, json.Unmarshal(text, &board))
	require.Nil(t, board.ID, "an imported dashboard gets its number from Grafana")
	require.NotEmpty(t, board.UID)
	require.NotEmpty(t, board.Title)
	require.GreaterOrEqual(t, board.SchemaVersion, 38, "that of Grafana 10")

	known, used := seriesNames(t), map[string]bool{}
	var variables []string
	for _, v := range board.Templating.List {
		variables = append(variables, v.Name)
		if v.Type == "query" {
			wantSeries(t, known, v.Definition, "variable "+v.Name, used)
		}
	}
	require.Equal(t, []string{"datasource", "pipeline", "queue"}, variables)

	ids, taken := map[int]bool{}, map[[2]int]string{}
	var rows []string
	for _, p := range board.Panels {
		require.False(t, ids[p.ID], "the id of panel %q is taken", p.Title)
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				require.Empty(t, taken[[2]int{x, y}], "panel %q lies over another", p.Title)
				taken[[2]int{x, y}] = p.Title
			}
		}
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		if p.Type == "row" {
			rows = append(rows, p.Title)
			continue
		}
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			require.Equal(t, "${datasource}", target.Datasource.UID, p.Title)
			wantSeries(t, known, target.Expr, "panel "+p.Title, used)
		}
	}
	require.Equal(t, []string{"Overview", "Pipelines", "Sinks", "Dead letters", "Queues", "Stores", "The daemon"}, rows)
	for _, family := range known {
		require.True(t, used[family], "no panel shows %s", family)
	}
}

func TestTheAlertsAskForMetricsThatExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operating/alerts.yml")
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	strict := yaml.NewDecoder(bytes.NewReader(text))
	strict.KnownFields(true)
	require.NoError(t, strict.Decode(&file))
	known, used, names := seriesNames(t), map[string]bool{}, map[string]bool{}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			require.False(t, names[rule.Alert], "%s is there twice", rule.Alert)
			names[rule.Alert] = true
			wantSeries(t, known, rule.Expr, rule.Alert, used)
			require.Contains(t, []string{"critical", "warning", "info"}, rule.Labels["severity"], rule.Alert)
			require.NotEmpty(t, rule.Annotations["summary"], rule.Alert)
			require.NotEmpty(t, rule.Annotations["description"], rule.Alert)
		}
	}
	for _, family := range []string{
		"stowage_build_info", "stowage_scrape_errors", "stowage_pipeline_state", "stowage_pipeline_checkpoint_lag_seconds", "stowage_dead_letters",
		"stowage_queue_oldest_message_age_seconds", "stowage_queue_undecodable_messages", "stowage_store_wal_bytes",
	} {
		require.True(t, used[family], "no rule watches %s", family)
	}
}
