package model

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Owner is a ports.QueueOwnerStore whose queues are models.
type Owner struct {
	clock ports.Clock

	mu     sync.Mutex
	closed bool
	queues []ownedQueue // ordered by id
}

type ownedQueue struct {
	id      string
	queue   *Queue
	blocked error // why it cannot be opened
	tokens  []ownedToken
}

type ownedToken struct {
	token string
	until *int64 // nil for the current one
}

// NewOwner makes an owner with queues of the given ids. It panics on an id that breaks the rules.
func NewOwner(clock ports.Clock, ids ...string) *Owner {
	m := &Owner{clock: clock}
	for _, id := range ids {
		if err := m.Create(context.Background(), id); err != nil {
			panic("model: " + err.Error())
		}
	}
	return m
}

// Block makes a queue, which need not exist, one that cannot be opened, as a legacy directory would.
func (m *Owner) Block(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.find(id)
	if q == nil {
		q = m.insert(id)
	}
	q.blocked = ports.Errorf(ports.CodeBindingSetupFailed, "owner.queue", "the queue %q is blocked: move its legacy directory away", id)
}

// begin checks the id and locks the owner. The caller unlocks, unless there is an error.
func (m *Owner) begin(ctx context.Context, op, id string) error {
	if err := ports.CheckQueueID(op, id); err != nil {
		return err
	}
	return m.lock(ctx, op)
}

func (m *Owner) lock(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return ports.Errorf(ports.CodeStoreClosed, op, "the model owner is closed")
	}
	return nil
}

func (m *Owner) find(id string) *ownedQueue {
	i := slices.IndexFunc(m.queues, func(q ownedQueue) bool { return q.id == id })
	if i < 0 {
		return nil
	}
	return &m.queues[i]
}

func (m *Owner) insert(id string) *ownedQueue {
	m.queues = append(m.queues, ownedQueue{id: id, queue: NewQueue(m.clock), tokens: []ownedToken{{token: rand.Text()}}})
	slices.SortFunc(m.queues, func(a, b ownedQueue) int { return strings.Compare(a.id, b.id) })
	return m.find(id)
}

func notFound(op, id string) error {
	return ports.Errorf(ports.CodeNotFound, op, "there is no queue %q", id)
}

// Create implements ports.QueueOwner.
func (m *Owner) Create(ctx context.Context, id string) error {
	const op = "owner.create"
	if err := m.begin(ctx, op, id); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if m.find(id) != nil {
		return ports.Errorf(ports.CodeAlreadyExists, op, "there is a queue %q already", id)
	}
	m.insert(id)
	return nil
}

// Queue implements ports.QueueOwner.
func (m *Owner) Queue(ctx context.Context, id string) (ports.Queue, error) {
	const op = "owner.queue"
	if err := m.begin(ctx, op, id); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	q := m.find(id)
	if q == nil {
		return nil, notFound(op, id)
	}
	if q.blocked != nil {
		return nil, q.blocked
	}
	return q.queue, nil
}

// List implements ports.QueueOwner.
func (m *Owner) List(ctx context.Context) ([]types.QueueInfo, error) {
	if err := m.lock(ctx, "owner.list"); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	infos := []types.QueueInfo{}
	for _, q := range m.queues {
		infos = append(infos, types.QueueInfo{ID: q.id, Err: q.blocked})
	}
	return infos, nil
}

// Delete implements ports.QueueOwner. Every operation of a model is one step under its lock, so that
// none is left running once the handle is revoked.
func (m *Owner) Delete(ctx context.Context, id string) error {
	const op = "owner.delete"
	if err := m.begin(ctx, op, id); err != nil {
		return err
	}
	defer m.mu.Unlock()
	q := m.find(id)
	if q == nil {
		return notFound(op, id)
	}
	if q.blocked != nil {
		return q.blocked
	}
	q.queue.end(ports.Errorf(ports.CodeStoreClosed, "queue", "the queue %q was deleted", id).WithReason(ports.ReasonRevoked))
	m.queues = slices.DeleteFunc(m.queues, func(other ownedQueue) bool { return other.id == id })
	return nil
}

// Authenticate implements ports.QueueOwner.
func (m *Owner) Authenticate(ctx context.Context, id, token string) error {
	const op = "owner.authenticate"
	if err := m.lock(ctx, op); err != nil {
		return err
	}
	defer m.mu.Unlock()
	now := m.clock.Now().UnixMilli()
	if q := m.find(id); q != nil {
		for _, t := range q.tokens {
			if t.token == token && (t.until == nil || *t.until > now) {
				return nil
			}
		}
	}
	return ports.Errorf(ports.CodeAuthenticationFailed, op, "the token is not one of this queue")
}

// Token implements ports.QueueOwner.
func (m *Owner) Token(ctx context.Context, id string) (string, error) {
	const op = "owner.token"
	if err := m.begin(ctx, op, id); err != nil {
		return "", err
	}
	defer m.mu.Unlock()
	q := m.find(id)
	if q == nil {
		return "", notFound(op, id)
	}
	return q.tokens[len(q.tokens)-1].token, nil
}

// Rotate implements ports.QueueOwner. An older token that an earlier rotation still lets work keeps
// its own end.
func (m *Owner) Rotate(ctx context.Context, id string, overlap time.Duration) (string, error) {
	const op = "owner.rotate"
	if err := ports.CheckOverlap(op, overlap); err != nil {
		return "", err
	}
	if err := m.begin(ctx, op, id); err != nil {
		return "", err
	}
	defer m.mu.Unlock()
	q := m.find(id)
	if q == nil {
		return "", notFound(op, id)
	}
	until := m.clock.Now().Add(overlap).UnixMilli()
	q.tokens[len(q.tokens)-1].until = &until
	q.tokens = append(q.tokens, ownedToken{token: rand.Text()})
	return q.tokens[len(q.tokens)-1].token, nil
}

// Close makes every later call STORE_CLOSED, those of its handles too.
func (m *Owner) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for _, q := range m.queues {
		q.queue.end(ports.Errorf(ports.CodeStoreClosed, "queue", "the queue %q is closed with its owner", q.id))
	}
	return nil
}
