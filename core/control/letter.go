package control

import (
	"context"
	"iter"
	"math"
	"strings"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// LetterCounts returns the number of letters of each pipeline that has one, ordered.
func (h *Handle) LetterCounts(ctx context.Context) ([]types.LetterCount, error) {
	return h.storage.CountDeadLetters(ctx)
}

// Letter returns the letter of the match id. One that is not there is NOT_FOUND; one that cannot be
// decoded comes with its Err.
func (h *Handle) Letter(ctx context.Context, pipeline types.PipelineID, id types.MatchID) (types.StoredLetter, error) {
	const op = "control.letter"
	if err := checkLetterKey(op, pipeline, id); err != nil {
		return types.StoredLetter{}, err
	}
	stored, found, err := h.storage.GetDeadLetter(ctx, pipeline, id)
	if err == nil && !found {
		err = missing(op, pipeline, id)
	}
	if err != nil {
		return types.StoredLetter{}, err
	}
	return stored, nil
}

// Letters returns a page of the letters that the filter picks: query.Take of them, 0 to 1000, after the
// first query.Skip behind the position query.After. With an empty filter the cost does not grow with the
// number of letters beyond that of counting them. With any other, letters are read a page at a time: all
// of them, for Total, and behind a position as many as it takes to fill the page. Page, Total and Through
// are of moments that may differ while letters come and go.
func (h *Handle) Letters(ctx context.Context, pipeline types.PipelineID, filter types.LetterFilter, query types.LetterQuery) (types.LetterPage, error) {
	const op = "control.letters"
	none := types.LetterPage{}
	if err := ports.CheckLetterQuery(op, pipeline, query); err != nil {
		return none, err
	}
	if err := checkFilter(op, filter); err != nil {
		return none, err
	}
	var page types.LetterPage
	if filter == (types.LetterFilter{}) {
		var err error
		if query.Take > 0 {
			page.Letters, err = h.storage.ListDeadLetters(ctx, pipeline, query)
			if err != nil {
				return none, err
			}
		}
		if query.After > 0 {
			return page, nil
		}
		if page.Total, page.Through, err = h.newest(ctx, pipeline); err != nil {
			return none, err
		}
		if n := len(page.Letters); n > 0 {
			page.Through = max(page.Through, page.Letters[n-1].Position)
		}
		return page, nil
	}
	for letters, err := range h.pages(ctx, pipeline, query.After, math.MaxInt64) {
		if err != nil {
			return none, err
		}
		for _, stored := range letters {
			if query.After > 0 && len(page.Letters) == query.Take {
				break
			}
			page.Through = stored.Position
			if !picks(filter, stored) {
				continue
			}
			if page.Total++; page.Total > int64(query.Skip) && len(page.Letters) < query.Take {
				page.Letters = append(page.Letters, stored)
			}
		}
		if query.After > 0 && len(page.Letters) == query.Take {
			break
		}
	}
	if query.After > 0 {
		page.Total, page.Through = 0, 0
	}
	return page, nil
}

// PreviewLetters counts the letters that the filter picks. Its Through, given to the action, makes
// that work on these and nothing newer.
func (h *Handle) PreviewLetters(ctx context.Context, pipeline types.PipelineID, filter types.LetterFilter) (types.LetterPreview, error) {
	page, err := h.Letters(ctx, pipeline, filter, types.LetterQuery{})
	return types.LetterPreview{Count: page.Total, Through: page.Through}, err
}

// newest counts the letters of a pipeline and finds the position of the last of them, 0 if there is
// none.
func (h *Handle) newest(ctx context.Context, pipeline types.PipelineID) (count, position int64, err error) {
	// The last one is missed only when letters are removed between the count and the look. Reading
	// them all, which cannot miss it, is for those who remove them all the time.
	for range 3 {
		if count, err = h.count(ctx, pipeline); err != nil || count == 0 {
			return 0, 0, err
		}
		last, err := h.storage.ListDeadLetters(ctx, pipeline, types.LetterQuery{Skip: int(count - 1), Take: 1})
		if err != nil {
			return 0, 0, err
		}
		if len(last) == 1 {
			return count, last[0].Position, nil
		}
	}
	count = 0
	for page, err := range h.pages(ctx, pipeline, 0, math.MaxInt64) {
		if err != nil {
			return 0, 0, err
		}
		count += int64(len(page))
		position = page[len(page)-1].Position
	}
	return count, position, nil
}

func (h *Handle) count(ctx context.Context, pipeline types.PipelineID) (int64, error) {
	counts, err := h.storage.CountDeadLetters(ctx)
	if err != nil {
		return 0, err
	}
	for _, c := range counts {
		if c.Pipeline == pipeline {
			return c.Count, nil
		}
	}
	return 0, nil
}

// pages yields the letters behind a position, up to and including the position through, in the order of
// arrival, a page at a time, none of them empty. It goes by position, so that letters that are removed on
// the way make it neither skip nor repeat others. It ends after an error.
func (h *Handle) pages(ctx context.Context, pipeline types.PipelineID, after, through int64) iter.Seq2[[]types.StoredLetter, error] {
	return func(yield func([]types.StoredLetter, error) bool) {
		for after < through {
			page, err := h.storage.ListDeadLetters(ctx, pipeline, types.LetterQuery{After: after, Take: h.pageSize})
			if err != nil {
				yield(nil, err)
				return
			}
			last := len(page) < h.pageSize
			for i, stored := range page {
				if stored.Position > through {
					page, last = page[:i], true
					break
				}
			}
			if len(page) == 0 || !yield(page, nil) || last {
				return
			}
			after = page[len(page)-1].Position
		}
	}
}

// picks reports whether the filter picks the letter. One that cannot be decoded has nothing to look
// at, and only the empty filter picks it.
func picks(filter types.LetterFilter, stored types.StoredLetter) bool {
	if stored.Err != nil {
		return filter == types.LetterFilter{}
	}
	l := stored.Letter
	return (filter.Monitor == "" || filter.Monitor == l.Monitor) &&
		(filter.Sink == "" || filter.Sink == l.Sink) &&
		strings.Contains(l.Reason, filter.Reason)
}

func checkFilter(op string, filter types.LetterFilter) error {
	if filter.Monitor != "" {
		if err := ports.CheckID(op, "monitor", filter.Monitor); err != nil {
			return err
		}
	}
	if filter.Sink != "" {
		return ports.CheckID(op, "sink", filter.Sink)
	}
	return nil
}

func checkLetterKey(op string, pipeline types.PipelineID, id types.MatchID) error {
	if err := ports.CheckPipeline(op, pipeline); err != nil {
		return err
	}
	return ports.CheckMatchID(op, id)
}

func missing(op string, pipeline types.PipelineID, id types.MatchID) error {
	return ports.Errorf(ports.CodeNotFound, op, "pipeline %q has no dead letter %q: it may have been replayed or discarded", pipeline, id)
}

func busy(op string, pipeline types.PipelineID, id types.MatchID) error {
	return ports.Errorf(ports.CodeBackendFailed, op, "the dead letter %q of pipeline %q is being replayed or discarded by another call: repeat when that has ended", id, pipeline).
		WithReason(ports.ReasonBusy)
}

func undecodable(op string, pipeline types.PipelineID, stored types.StoredLetter) error {
	return ports.Errorf(ports.CodeBackendFailed, op, "the dead letter %q at position %d of pipeline %q cannot be decoded, and so not be replayed: %w; discard it if it is of no use",
		stored.Letter.MatchID, stored.Position, pipeline, stored.Err).WithReason(ports.ReasonUndecodable)
}
