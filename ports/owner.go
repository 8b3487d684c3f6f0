package ports

import (
	"context"
	"time"

	"github.com/stowage-go/stowage/types"
)

// QueueOwner is the one process that has the queues of a state directory open (R112). Queue ids are
// 1 to 128 bytes of A-Z a-z 0-9 - _ and dot, and start with a letter or a digit (R124).
//
// Handles that it gives out are shared: two calls for one id give the same queue. Delete revokes them:
// a revoked handle gives [ErrRevoked], which is permanent, also when a queue of the same id has been
// created since (R122). After the owner's own close they give STORE_CLOSED, which is transient: an
// owner that stops is usually back soon.
type QueueOwner interface {
	// Create makes a queue and its credential. One that exists is ALREADY_EXISTS and left alone.
	Create(ctx context.Context, id string) error

	// Queue returns the queue, opened on first use. A queue that does not exist is NOT_FOUND; one
	// whose legacy directory is still there is BINDING_SETUP_FAILED (R119).
	Queue(ctx context.Context, id string) (Queue, error)

	// List returns all queues, ordered by id, those included that cannot be opened or that need an
	// operator; their Err says why.
	List(ctx context.Context) ([]types.QueueInfo, error)

	// Delete waits for the operations that are running, revokes the handles, then removes the
	// directory and the credential, in this order (R117). Long polls are woken. A missing queue is
	// NOT_FOUND.
	Delete(ctx context.Context, id string) error

	// Authenticate returns nil if the token is the queue's. A wrong token and an unknown queue give
	// the same AUTHENTICATION_FAILED (R141, R145).
	Authenticate(ctx context.Context, id, token string) error

	// Token returns the current token of the queue, for its binding.
	Token(ctx context.Context, id string) (string, error)

	// Rotate makes a new token, and lets the old one work for the overlap, 0 to 7 days (R147).
	Rotate(ctx context.Context, id string, overlap time.Duration) (string, error)
}
