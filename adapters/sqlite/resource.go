package sqlite

import (
	"context"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// GetResource implements [ports.ResourceStore].
func (s *Storage) GetResource(ctx context.Context, kind types.ResourceKind, id string) (resource types.Resource, found bool, err error) {
	const op = "storage.getResource"
	if err := ports.CheckResourceKey(op, kind, id); err != nil {
		return types.Resource{}, false, err
	}
	err = s.read(ctx, op, func(c *sqlitefile.Conn) error {
		return c.Query(selectResource, func(r sqlitefile.Row) (err error) {
			found = true
			resource, err = s.resource(op, string(kind), id, &columns{row: r}, 0)
			return err
		}, string(kind), id)
	})
	if err != nil {
		return types.Resource{}, false, err
	}
	return resource, found, nil
}

// resource decodes version and value, which stand from column i on.
func (s *Storage) resource(op, kind, id string, c *columns, i int) (types.Resource, error) {
	resource := types.Resource{
		Kind:    types.ResourceKind(kind),
		ID:      id,
		Version: c.natural(i, "version"),
		Value:   c.json(i+1, "value"),
	}
	if c.err != nil {
		return types.Resource{}, s.undecodable(op, "resources", key(kind, id), c.err)
	}
	return resource, nil
}

// ListResources implements [ports.ResourceStore].
func (s *Storage) ListResources(ctx context.Context, kind types.ResourceKind, opts types.ResourceListOptions) (page types.ResourcePage, err error) {
	const op = "storage.listResources"
	limit, err := ports.CheckResourceList(op, kind, opts)
	if err != nil {
		return types.ResourcePage{}, err
	}
	err = s.read(ctx, op, func(c *sqlitefile.Conn) error {
		return c.Query(selectResources, func(r sqlitefile.Row) error {
			if len(page.Resources) == limit {
				page.Next = page.Resources[limit-1].ID
				return nil // the one row more says that there are more
			}
			columns := columns{row: r}
			resource, err := s.resource(op, string(kind), columns.text(0, "id"), &columns, 1)
			page.Resources = append(page.Resources, resource)
			return err
		}, string(kind), opts.After, limit+1)
	})
	if err != nil {
		return types.ResourcePage{}, err
	}
	return page, nil
}

// ResourceKinds implements [ports.ResourceStore]. It skips from kind to kind, however many records each
// has.
func (s *Storage) ResourceKinds(ctx context.Context) (kinds []types.ResourceKind, err error) {
	const op = "storage.resourceKinds"
	err = s.snapshot(ctx, op, func(c *sqlitefile.Conn) error {
		for after, more := "", true; more; {
			more = false
			err := c.Query(selectNextKind, func(r sqlitefile.Row) error {
				columns := columns{row: r}
				after, more = columns.text(0, "kind"), true
				if columns.err != nil {
					return s.undecodable(op, "resources", key(), columns.err)
				}
				kinds = append(kinds, types.ResourceKind(after))
				return nil
			}, after)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return kinds, nil
}

// PutResource implements [ports.ResourceStore].
func (s *Storage) PutResource(ctx context.Context, kind types.ResourceKind, id string, value []byte, expected uint64) (uint64, error) {
	const op = "storage.putResource"
	if err := ports.CheckResource(op, kind, id, value, expected); err != nil {
		return 0, err
	}
	text := string(value)
	if expected == 0 {
		err := s.writeOne(ctx, op, func(tx transaction) error {
			return tx.createResource(op, types.Resource{Kind: kind, ID: id, Version: 1}, text)
		})
		if err != nil {
			return 0, err
		}
		return 1, nil
	}
	err := s.writeOne(ctx, op, func(tx transaction) error {
		changed, err := tx.Exec(updateResource, string(kind), id, int64(expected), text)
		if err != nil || changed > 0 {
			return err
		}
		return tx.explain(op, kind, id, expected)
	})
	if err != nil {
		return 0, err
	}
	return expected + 1, nil
}

// PutResources implements [ports.ResourceStore]. Nothing of it is stored after any failure (R180).
func (s *Storage) PutResources(ctx context.Context, resources []types.Resource) error {
	const op = "storage.putResources"
	if err := ports.CheckResourceBatch(op, resources); err != nil {
		return err
	}
	texts := make([]string, len(resources))
	records := make([]types.Resource, len(resources))
	for i, r := range resources {
		texts[i] = string(r.Value)
		records[i] = types.Resource{Kind: r.Kind, ID: r.ID, Version: 1}
	}
	return s.write(ctx, op, func(tx transaction) error {
		for i, r := range records {
			if err := tx.createResource(op, r, texts[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// DeleteResource implements [ports.ResourceStore].
func (s *Storage) DeleteResource(ctx context.Context, kind types.ResourceKind, id string, expected uint64) error {
	const op = "storage.deleteResource"
	if err := ports.CheckResourceDelete(op, kind, id, expected); err != nil {
		return err
	}
	return s.writeOne(ctx, op, func(tx transaction) error {
		changed, err := tx.Exec(deleteResource, string(kind), id, int64(expected))
		if err != nil || changed > 0 {
			return err
		}
		return tx.explain(op, kind, id, expected)
	})
}

// createResource is a plain INSERT; what collides is there already (R241).
func (tx transaction) createResource(op string, r types.Resource, value string) error {
	_, err := tx.Exec(insertResource, string(r.Kind), r.ID, int64(r.Version), value)
	if sqlitefile.IsConstraint(err) {
		return ports.Errorf(ports.CodeAlreadyExists, op, "the resource %s/%s exists, nothing was stored: give the version that is to be replaced, or another id", r.Kind, r.ID)
	}
	return err
}

// explain tells the two reasons apart for which a conditional statement has changed nothing (R240).
func (tx transaction) explain(op string, kind types.ResourceKind, id string, expected uint64) error {
	var (
		version uint64
		found   bool
	)
	err := tx.Query(selectVersion, func(r sqlitefile.Row) error {
		columns := columns{row: r}
		version, found = columns.natural(0, "version"), true
		if columns.err != nil {
			return tx.s.undecodable(op, "resources", key(kind, id), columns.err)
		}
		return nil
	}, string(kind), id)
	if err != nil {
		return err
	}
	if !found {
		return ports.Errorf(ports.CodeNotFound, op, "there is no resource %s/%s, expected version %d; nothing was changed", kind, id, expected)
	}
	return &ports.VersionConflictError{Op: op, Key: string(kind) + "/" + id, Expected: expected, Actual: version}
}
