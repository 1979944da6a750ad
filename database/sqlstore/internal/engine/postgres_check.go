package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// checkPages implements Engine with amcheck, which finds entries out of order and rows that an
// index lacks.
func (p *postgresEngine) checkPages(ctx context.Context, step func(done, total int) error) (found []string, unchecked string, err error) {
	const install = "the indexes of the database: the extension amcheck is not installed; run CREATE EXTENSION amcheck as a superuser, and let this user call bt_index_check"
	schema, err := p.amcheck(ctx)
	if err != nil || schema == "" {
		return nil, install, err
	}
	indexes, err := p.indexes(ctx)
	if err != nil {
		return nil, "", err
	}
	for i, name := range indexes {
		if err := step(i, len(indexes)); err != nil {
			return found, "", err
		}
		err := p.checkIndex(ctx, schema, name)
		e, ofServer := errors.AsType[*pgconn.PgError](err)
		switch {
		case err == nil:
		case !ofServer:
			return found, "", err
		case e.Code == "42501": // not permitted
			return found, "the indexes of the database: this user may not call bt_index_check: " + e.Message, nil
		case strings.HasPrefix(e.Code, "XX"):
			if found = append(found, fmt.Sprintf("index %s: %s", name, e.Message)); len(found) == maxFindings {
				return found, "", nil
			}
		default:
			return found, "", err
		}
	}
	return found, "", step(len(indexes), len(indexes))
}

// amcheck returns the quoted schema that has the functions which amcheck installs, or "".
func (p *postgresEngine) amcheck(ctx context.Context) (schema string, err error) {
	err = p.Read(ctx, func(t *Tx) error {
		_, err := t.Row(`SELECT convert_to(quote_ident(n.nspname), 'UTF8') FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'amcheck'`, nil, &schema)
		return err
	})
	return schema, err
}

// indexes returns the names of all B-trees in the schema.
func (p *postgresEngine) indexes(ctx context.Context) (list []string, err error) {
	err = p.Read(ctx, func(t *Tx) (err error) {
		var name string
		list, err = Collect(t, `SELECT convert_to(c.relname, 'UTF8') FROM pg_class c JOIN pg_am a ON a.oid = c.relam
			WHERE c.relkind = 'i' AND a.amname = 'btree' AND c.relnamespace = current_schema()::regnamespace ORDER BY c.relname`, nil, Args{&name}, &name)
		return err
	})
	return list, err
}

// checkIndex also looks for each row in the index, which takes as long as to build it.
func (p *postgresEngine) checkIndex(ctx context.Context, schema, name string) error {
	var one Integer
	return p.Survey(ctx, func(t *Tx) error {
		_, err := t.Row(`SELECT CASE WHEN `+schema+`.bt_index_check(c.oid, true) IS NULL THEN 1 ELSE 0 END FROM pg_class c
			WHERE c.relname = convert_from($1, 'UTF8') AND c.relnamespace = current_schema()::regnamespace`, Args{[]byte(name)}, &one)
		return err
	})
}
