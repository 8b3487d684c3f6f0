package ports

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/stowage-go/stowage/types"
)

// The JSON forms in which storages keep records, and in which they travel.

// EncodeCheckpoint gives a checkpoint its JSON form: {"cursor":{"primary":N,"secondary":N},
// "module":…,"updated_at":…}, where module and updated_at are left out when there are none (R186).
func EncodeCheckpoint(c types.Checkpoint) (string, error) {
	text, err := EncodeJSON(c)
	return string(text), err
}

// DecodeCheckpoint reads the form of [EncodeCheckpoint]. Members that it does not know, which a newer
// or another program may have written, are passed over.
func DecodeCheckpoint(text string) (types.Checkpoint, error) {
	var stored struct {
		Cursor    *types.Cursor `json:"cursor"`
		Module    *string       `json:"module"`
		UpdatedAt *time.Time    `json:"updated_at"`
	}
	if err := DecodeJSON([]byte(text), &stored, AsStored, AllowUnknown); err != nil {
		return types.Checkpoint{}, err
	}
	if stored.Cursor == nil {
		return types.Checkpoint{}, errors.New(`the member "cursor" is missing`)
	}
	c := types.Checkpoint{Cursor: *stored.Cursor, Module: stored.Module}
	if stored.UpdatedAt != nil {
		c.UpdatedAt = stored.UpdatedAt.UTC()
	}
	return c, nil
}

// EncodeDeadLetter gives a letter its JSON form, in which an absent payload is left out (R201).
func EncodeDeadLetter(l types.DeadLetter) (string, error) {
	text, err := EncodeJSON(l)
	return string(text), err
}

// DecodeDeadLetter reads the form of [EncodeDeadLetter], with a payload that is absent, tagged, or the
// bare match of older files (R202). If the letter cannot be decoded, what comes back beside the error
// has the match id at most.
func DecodeDeadLetter(text string) (types.DeadLetter, error) {
	var letter types.DeadLetter
	raw := []byte(text)
	err := errors.New("it is not valid JSON")
	if utf8.Valid(raw) && json.Valid(raw) {
		err = letter.UnmarshalJSON(raw)
	}
	if err == nil && letter.MatchID == "" {
		err = errors.New(`the member "match_id" is missing`)
	}
	if err == nil {
		return letter, nil
	}
	return types.DeadLetter{MatchID: letter.MatchID}, fmt.Errorf("the stored dead letter cannot be decoded: %w", err)
}
