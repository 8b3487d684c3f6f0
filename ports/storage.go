package ports

import (
	"context"
	"iter"

	"github.com/stowage-go/stowage/types"
)

// Storage is the durable state of pipelines and of what operates them. It is the sum of six small
// interfaces; ask for the smallest that you need.
//
// What holds for all of its methods:
//
//   - Input is checked by the functions of this package before the store is touched, and what breaks a
//     rule is INVALID_INPUT in every backend. Ids of all kinds are 1 to 256 bytes of A-Z a-z 0-9 - _ :
//     and dot, the first a letter, a digit or an underscore. Parts of a cursor, versions and indexes
//     are at most 2^63-1 (R245). JSON is valid, in valid UTF-8, without duplicate members, and at most
//     1 MiB (an aux, 64 KiB).
//   - Each call is one atomic step, and a call that changes something returns once the change is
//     durable, as far as the backend keeps anything. An error means that nothing was changed.
//   - Reading what is not there is no error: a boolean says so. Order is the order of the bytes.
//   - Values are copied in and out: no caller shares memory with a store (R234).
//   - Methods may be called from many goroutines. A call whose context ends before it began leaves
//     nothing behind and returns the context's error; one that had begun returns its true outcome.
//   - After Close every method gives STORE_CLOSED. A backend's own failure is BACKEND_FAILED, a stored
//     record that cannot be decoded BACKEND_FAILED/undecodable.
type Storage interface {
	ResourceStore
	CheckpointStore
	DeadLetterStore
	PauseStore
	DeliveryJournal
	GateJournal

	// Apply stores everything that one step of a pipeline changed, all of it or nothing, in the order
	// of the fields of [types.Progress]. Each part has the meaning of the method that does it alone;
	// each list holds at most 10,000 entries. It may be repeated: the second time changes nothing,
	// unless another call came in between.
	Apply(ctx context.Context, pipeline types.PipelineID, progress types.Progress) error

	// Quiesce returns when every call that began before it has really ended, those too whose callers
	// gave up (R255). Calls that begin later go on as usual, and are not waited for (R256). When ctx
	// ends first, its error is returned.
	Quiesce(ctx context.Context) error

	// Close waits for the calls that are under way. Closing again does nothing.
	Close() error
}

// ResourceStore keeps versioned records, keyed by kind and id together.
type ResourceStore interface {
	// GetResource returns the record, and whether there is one.
	GetResource(ctx context.Context, kind types.ResourceKind, id string) (types.Resource, bool, error)

	// ListResources returns the records of a kind, ordered by id. Each page sees the store at its own
	// instant; no record that stays is left out or comes twice.
	ListResources(ctx context.Context, kind types.ResourceKind, opts types.ResourceListOptions) (types.ResourcePage, error)

	// ResourceKinds returns the kinds that have a record, ordered.
	ResourceKinds(ctx context.Context) ([]types.ResourceKind, error)

	// PutResource stores value and returns the record's new version. With expected 0 it creates the
	// record at version 1, and one that is there is ALREADY_EXISTS (R173). Otherwise it replaces the
	// value of the record of the version expected and adds 1; a record of another version is a
	// [VersionConflictError] with both numbers, a missing one NOT_FOUND (R174).
	PutResource(ctx context.Context, kind types.ResourceKind, id string, value []byte, expected uint64) (uint64, error)

	// PutResources creates 1 to 1000 records, all or none. One that is there, and one that comes twice
	// in the batch, is ALREADY_EXISTS (R176, R178). Version is 0 or 1.
	PutResources(ctx context.Context, resources []types.Resource) error

	// DeleteResource removes the record of the version expected, which is above 0, with the errors of
	// PutResource.
	DeleteResource(ctx context.Context, kind types.ResourceKind, id string, expected uint64) error
}

// CheckpointStore keeps one checkpoint a pipeline. Whether a checkpoint may go back, and who may write
// it, is not judged here.
type CheckpointStore interface {
	// LoadCheckpoint returns the checkpoint, and whether there is one.
	LoadCheckpoint(ctx context.Context, pipeline types.PipelineID) (types.Checkpoint, bool, error)
	// SaveCheckpoint stores the checkpoint in place of an earlier one.
	SaveCheckpoint(ctx context.Context, pipeline types.PipelineID, checkpoint types.Checkpoint) error
	// ListCheckpoints returns all checkpoints, ordered by pipeline.
	ListCheckpoints(ctx context.Context) ([]types.PipelineCheckpoint, error)
	// DeleteCheckpoint removes the checkpoint and reports whether there was one.
	DeleteCheckpoint(ctx context.Context, pipeline types.PipelineID) (bool, error)
}

// DeadLetterStore keeps, for each pipeline, the matches that a sink gave up on, in the order of their
// arrival. Pipeline and match id identify a letter. (Older files may hold a letter twice: a change
// goes to both, and a deletion takes both.)
type DeadLetterStore interface {
	// RecordDeadLetter adds the letter at the end. If the pipeline has a letter of the match id, its
	// content is replaced and it keeps its place, so that a step that is done again never doubles a
	// letter.
	RecordDeadLetter(ctx context.Context, pipeline types.PipelineID, letter types.DeadLetter) error
	// ListDeadLetters returns a page, in the order of arrival. A letter that cannot be decoded is in
	// its place with its Err. The cost of a page at the front, at the end, and after a position does
	// not grow with the number of letters.
	ListDeadLetters(ctx context.Context, pipeline types.PipelineID, query types.LetterQuery) ([]types.StoredLetter, error)
	// GetDeadLetter returns the letter of the match id, and whether there is one.
	GetDeadLetter(ctx context.Context, pipeline types.PipelineID, id types.MatchID) (types.StoredLetter, bool, error)
	// CountDeadLetters returns the number of letters of each pipeline that has one, ordered.
	CountDeadLetters(ctx context.Context) ([]types.LetterCount, error)
	// UpdateDeadLetter replaces the content of the letter of that match id, and reports whether there
	// is one. It keeps its place (R196).
	UpdateDeadLetter(ctx context.Context, pipeline types.PipelineID, letter types.DeadLetter) (bool, error)
	// DeleteDeadLetter removes the letter and reports whether there was one.
	DeleteDeadLetter(ctx context.Context, pipeline types.PipelineID, id types.MatchID) (bool, error)
	// DeleteDeadLetters removes the letters of at most 10,000 match ids in one step, and returns how
	// many there were. No ids remove nothing.
	DeleteDeadLetters(ctx context.Context, pipeline types.PipelineID, ids []types.MatchID) (int64, error)
	// DeleteAllDeadLetters removes every letter whose position is at most through, those that cannot
	// be decoded too, and returns how many there were. Positions start at 1.
	DeleteAllDeadLetters(ctx context.Context, pipeline types.PipelineID, through int64) (int64, error)
}

// PauseStore keeps what an operator has paused. A target is checked like an id. The id of a pause is 1
// to 513 bytes: ids, joined by slashes.
type PauseStore interface {
	// Pause stores the pause; one that is there stays.
	Pause(ctx context.Context, pause types.Pause) error
	// Resume removes the pause, if it is there.
	Resume(ctx context.Context, pause types.Pause) error
	// Paused reports whether the pause is there.
	Paused(ctx context.Context, pause types.Pause) (bool, error)
	// ListPauses returns all pauses, ordered by target, then id.
	ListPauses(ctx context.Context) ([]types.Pause, error)
}

// DeliveryJournal remembers the matches that were delivered lately, so that an event that comes again
// is not delivered again. It is bounded by the depth that the store was opened with: what lies more
// than depth below the highest primary that was ever recorded for the pipeline is forgotten (R214,
// R215). There is no other way to prune it.
type DeliveryJournal interface {
	// RecordDeliveries stores at most 10,000 deliveries, then prunes; without any it does neither. A
	// match that is there moves to the newer of its two cursors (R220). Entries already behind the
	// depth are forgotten at once.
	RecordDeliveries(ctx context.Context, pipeline types.PipelineID, deliveries []types.Delivery) error
	// Delivered returns the deliveries from cursor to cursor, both included, ordered by cursor, then
	// match id (R219). With from after to there are none.
	Delivered(ctx context.Context, pipeline types.PipelineID, from, to types.Cursor) ([]types.Delivery, error)
}

// JournalCounter is implemented by storages that can tell how full their delivery journals are.
type JournalCounter interface {
	// CountDeliveries returns the number of entries of each pipeline that has one, ordered. Its cost may
	// grow with their number, which the depth bounds.
	CountDeliveries(ctx context.Context) ([]types.JournalCount, error)
}

// GateJournal keeps the state of gates: the matches that were counted, and a little beside them.
type GateJournal interface {
	// AppendHits stores at most 10,000 hits. One whose key is there stays as it is (R227).
	AppendHits(ctx context.Context, pipeline types.PipelineID, hits []types.GateHit) error
	// Hits returns the hits of a monitor whose TS is at or after since, in milliseconds since the
	// epoch, ordered by cursor, then index.
	Hits(ctx context.Context, pipeline types.PipelineID, monitor types.MonitorID, since int64) ([]types.GateHit, error)
	// DeleteHitsBefore removes the hits of a pipeline whose primary is below the given one.
	DeleteHitsBefore(ctx context.Context, pipeline types.PipelineID, primary uint64) error
	// DeleteHitsFrom removes the hits of a pipeline whose primary is the given one or above.
	DeleteHitsFrom(ctx context.Context, pipeline types.PipelineID, primary uint64) error
	// GateMeta returns what is kept for a monitor, and whether there is anything.
	GateMeta(ctx context.Context, pipeline types.PipelineID, monitor types.MonitorID) (types.GateMeta, bool, error)
	// SetGateMeta stores it in place of what was there.
	SetGateMeta(ctx context.Context, pipeline types.PipelineID, monitor types.MonitorID, meta types.GateMeta) error
}

// Archiver is implemented by storages that can give out and take in everything that they hold.
type Archiver interface {
	// Export calls yield for every record, as the store is at one instant: resources by kind and id,
	// checkpoints by pipeline, dead letters by pipeline in the order of arrival, pauses, deliveries by
	// pipeline, cursor and match id, gate hits by key, gate metas by key. An error of yield ends it
	// and is returned. A record that cannot be decoded ends it with BACKEND_FAILED/undecodable. yield
	// may not call the store.
	Export(ctx context.Context, yield func(types.Record) error) error

	// Import stores all records, as they are (versions too, nothing is pruned), in one step: when it
	// fails, or when the sequence yields an error, which is returned, nothing was stored. A store that
	// holds a record of any category is ALREADY_EXISTS before the sequence is begun; so is a record
	// that comes twice. The sequence may not call the store. It returns the number of records.
	Import(ctx context.Context, records iter.Seq2[types.Record, error]) (int64, error)
}

// StorageModule opens storages.
type StorageModule struct {
	ModuleInfo
	// Paths is as for a KvModule.
	Paths func(Env, ModuleConfig) ([]string, error)
	// Open opens a storage. Bad configuration is INVALID_CONFIG before anything is touched.
	Open func(context.Context, Env, ModuleConfig) (Storage, error)
}
