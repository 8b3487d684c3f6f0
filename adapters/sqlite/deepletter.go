package sqlite

import (
	"strings"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// mostDepth is how deep the JSON functions of SQLite look. They refuse a deeper entry, and with it the
// row, since its match id could not be read.
const mostDepth = 1000

// deepLetter is the entry of a letter that is nested deeper: its payload stands in a string.
type deepLetter struct {
	types.DeadLetter

	PayloadText string `json:"payload_text"`
}

// encodeEntry makes the entry of a letter.
func encodeEntry(letter types.DeadLetter) (string, error) {
	entry, err := ports.EncodeDeadLetter(letter)
	if err != nil || !isDeeper(entry, mostDepth) {
		return entry, err
	}
	payload, err := ports.EncodeJSON(letter.Payload)
	if err != nil {
		return "", err
	}
	letter.Payload = nil
	deep, err := ports.EncodeJSON(deepLetter{letter, string(payload)})
	return string(deep), err
}

// decodeEntry reads an entry.
func decodeEntry(entry string) (types.DeadLetter, error) {
	letter, err := ports.DecodeDeadLetter(entry)
	if err != nil || letter.Payload != nil || !strings.Contains(entry, `"payload_text"`) {
		return letter, err
	}
	var deep struct {
		Text *string `json:"payload_text"`
	}
	err = ports.DecodeJSON([]byte(entry), &deep, ports.AsStored, ports.AllowUnknown)
	if err == nil && deep.Text != nil {
		letter.Payload = new(types.SinkEvent)
		err = letter.Payload.UnmarshalJSON([]byte(*deep.Text))
	}
	if err != nil {
		return types.DeadLetter{MatchID: letter.MatchID}, err
	}
	return letter, nil
}

// isDeeper reports whether arrays and objects of a JSON text are nested deeper than most.
func isDeeper(text string, most int) bool {
	if strings.Count(text, "[")+strings.Count(text, "{") <= most {
		return false
	}
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > most {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}
