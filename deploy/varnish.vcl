# A shared cache of a network with --reads public. Varnish speaks no TLS: haproxy.cfg or nginx.conf
# stands before it. Requests to S3's interface pass.

vcl 4.1;

backend default {
    .host = "127.0.0.1";
    .port = "9090";
    .first_byte_timeout = 120s;
}

backend s3 {
    .host = "127.0.0.1";
    .port = "9000";
    .first_byte_timeout = 120s;
}

sub vcl_recv {
    if (req.http.Host ~ "(?i)(^|\.)s3\.example\.org(:|$)") {
        set req.backend_hint = s3;
        return (pass);
    }
    # The service decides about a signed link, by its query.
    if (req.url ~ "[?&]sluice-link=" || req.http.Authorization || req.http.X-Api-Key || req.http.Service-Worker || (req.method != "GET" && req.method != "HEAD")) {
        return (pass);
    }
    # A query has no meaning for a blob, and each would be kept.
    set req.url = regsub(req.url, "^([^?]*/v1/blobs/[^/?]+/[^?]+)\?.*$", "\1");
    return (hash);
}

sub vcl_backend_response {
    # Otherwise Varnish decompresses blobs that are stored in gzip, with a weak ETag.
    if (bereq.backend == s3 || bereq.url ~ "/v1/blobs/[^/?]+/") {
        set beresp.filters = "";
    }
    set beresp.grace = 0s;
    set beresp.keep = 1d;
    unset beresp.http.RateLimit;
    unset beresp.http.RateLimit-Policy;
}

sub vcl_deliver {
    if (obj.hits > 0) {
        set resp.http.X-Cache = "HIT";
    } else {
        set resp.http.X-Cache = "MISS";
    }
}
