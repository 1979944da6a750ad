package httpapi

import (
	"fmt"
	"net/http"

	"sluice/access"
	"sluice/admin"
	"sluice/blob"
	"sluice/exchange"
	"sluice/metastore"
	"sluice/wire"
)

// inVersions is in the routes' patterns that have a version's id.
const inVersions = "/{version}/"

// version returns the version that the path names.
func (x *call) version() (v metastore.VersionName, err error) {
	if v.Account, v.Name, err = x.blobTarget(); err != nil {
		return v, err
	}
	var ok bool
	if v.Version, ok = metastore.ParseVersion(x.params.Get("version")); !ok {
		err = fmt.Errorf("%w: a version is 32 hexadecimal digits in lower case", exchange.ErrParameter)
	}
	return v, err
}

// versionInPath is blobInPath for a version.
func versionInPath(x *call) (place, error) {
	v, err := x.version()
	return place{v.Account, v.Name}, err
}

// mayReadVersion requires a key with access.ScopeRead wherever the blob is, since a place that
// everybody may read shows its current blobs only.
func (s *Server) mayReadVersion(x *call) error {
	at, err := versionInPath(x)
	if err != nil {
		return err
	}
	rules, err := s.places.Account(x.Request.Context(), at.account)
	if err != nil {
		return err
	}
	if err := x.PermitRead(access.ReadsKey, at.account, at.name); err != nil {
		return err
	}
	if x.place = rules.At(at.name); x.place.Reads != access.ReadsPaid { // a local instance charges for it
		x.place.Reads = access.ReadsKey
	}
	x.readsFree = x.HoldsRead(at.account, at.name)
	return x.place.Unblocked()
}

// getVersion serves GET and HEAD as getBlob does.
func (s *Server) getVersion(x *call) error {
	v, err := x.version()
	if err != nil {
		return err
	}
	return s.serveBlob(x, func() (*blob.Content, error) {
		c, err := s.blobs.OpenVersion(x.Request.Context(), v)
		switch {
		case err != nil:
			return nil, err
		case c.Mark:
			c.Close()
			x.Fields.Set(wire.HeaderBlobDeleted, "true")
			return nil, errMark
		}
		x.Fields.Set(wire.HeaderBlobVersion, v.Version.String())
		return c, nil
	})
}

// deleteVersion deletes a version for good.
func (s *Server) deleteVersion(x *call) error {
	v, err := x.version()
	if err != nil {
		return err
	}
	holds, err := s.versionPrecondition(x.Request.Header)
	if err != nil {
		return err
	}
	err = s.bypassing(x, v.BlobName, func(bypass metastore.Bypass) error {
		_, err := s.blobs.DeleteVersion(x.Request.Context(), metastore.Deletion{VersionName: v, Precondition: holds, Bypass: bypass})
		return err
	})
	if err != nil {
		return err
	}
	x.WriteHeader(http.StatusNoContent)
	return nil
}

// versionPrecondition returns the conditions on a version, or nil if there are none. For them a
// mark is no blob.
func (s *Server) versionPrecondition(h http.Header) (metastore.Precondition, error) {
	holds, err := s.precondition(h)
	if holds == nil {
		return nil, err
	}
	return func(current *metastore.Blob) error {
		if current != nil && current.Mark {
			current = nil
		}
		return holds(current)
	}, nil
}

// copyVersion serves POST on a version, which copies it. Onto its own name, it restores it.
func (s *Server) copyVersion(x *call) error {
	v, err := x.version()
	if err != nil {
		return err
	}
	return s.copyFrom(x, transferral{from: v.BlobName, version: &v})
}

func (s *Server) listVersions(x *call) error {
	q, query, err := listQuery(x)
	if err == nil {
		err = q.only("prefix", "delimiter", "after", "afterVersion", "limit", "include")
	}
	if err != nil {
		return err
	}
	asked := metastore.VersionQuery{ListQuery: query}
	if text := q.text("afterVersion"); text != "" {
		var ok bool
		if asked.AfterVersion, ok = metastore.ParseVersion(text); !ok || asked.After == "" {
			return fmt.Errorf("%w: afterVersion is a version of the name after", exchange.ErrParameter)
		}
	}
	page, err := s.blobs.ListVersions(x.Request.Context(), asked)
	if err != nil {
		return err
	}
	out := wire.VersionPage{Prefixes: page.Prefixes, Next: page.Next}
	if page.NextVersion != (metastore.Version{}) {
		out.NextVersion = page.NextVersion.String()
	}
	for _, b := range page.Versions {
		one := wire.Version{
			Blob: listed(x, asked.Account, &b), Version: metastore.VersionOf(&b).String(), Current: b.Since.IsZero(), Deleted: b.Mark, By: b.By, Since: b.Since, Until: b.Until, Lock: admin.LockOf(b.Lock),
		}
		if b.Mark {
			one.ETag, one.ContentType = "", ""
		}
		out.Versions = append(out.Versions, one)
	}
	return writePage(x, out, len(out.Versions)+len(out.Prefixes))
}
