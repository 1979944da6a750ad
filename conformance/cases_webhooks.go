package conformance

import (
	"fmt"

	"sluice/wire"
)

const (
	webhookRules  = "Webhooks" // is a section of docs/protocol.md
	adminWebhooks = "/v1/admin/webhooks"
)

// hooked creates a webhook for this case's account, for a host that does not exist. It is deleted
// at the end. It skips the case where no webhooks can be made.
func (c *trial) hooked() (w wire.IssuedWebhook) {
	c.administers()
	r := c.send(request{method: "POST", target: adminWebhooks, body: fmt.Sprintf(`{"url": "https://receiver.invalid/", "account": %q, "prefix": "p/", "kinds": ["stored"]}`, c.account)})
	if r.status == 400 {
		c.skipf("needs a server with a key for the secrets of webhooks")
	}
	r.want(201).json(&w)
	c.state.undo = append(c.state.undo, c.webhookRequest("DELETE", w.ID, ""))
	r.wantHeader("Etag", w.ETag)
	return w
}

func (c *trial) webhookRequest(method, id, body string, header ...string) request {
	return request{method: method, target: adminWebhooks + "/" + id, body: body, header: header}
}

// webhookCases manage webhooks that nobody receives.
var webhookCases = []Case{
	{Name: "webhooks/administration", Section: webhookRules, Level: Extended, check: func(c *trial) {
		made := c.hooked()
		var shown wire.Webhook
		c.send(c.webhookRequest("GET", made.ID, "")).want(200).wantHeader("Etag", made.ETag).json(&shown)
		if made.Secret == "" || shown.URL != "https://receiver.invalid/" || shown.Prefix != "p/" || len(shown.Kinds) != 1 || shown.State != wire.WebhookOn || shown.After == "" {
			c.fatalf("the webhook is %+v", shown)
		}
		c.send(c.webhookRequest("PATCH", made.ID, `{"on": false}`)).refused(428, "precondition_required")
		c.send(c.webhookRequest("PATCH", made.ID, `{"on": false}`, "If-Match", `"x"`)).refused(412, "precondition_failed")
		var changed wire.IssuedWebhook
		c.send(c.webhookRequest("PATCH", made.ID, `{"on": false, "newSecret": true}`, "If-Match", made.ETag)).want(200).json(&changed)
		if changed.State != wire.WebhookOff || changed.Reason != "disabled" || changed.Secret == "" || changed.Secret == made.Secret || changed.OldUntil.IsZero() {
			c.fatalf("the changed webhook is %+v", changed)
		}
		var page wire.WebhookPage
		c.send(request{method: "GET", target: adminWebhooks + "?limit=1000"}).want(200).json(&page)
		listed := 0
		for _, w := range page.Webhooks {
			if w.ID == made.ID && w.State == wire.WebhookOff {
				listed++
			}
		}
		if listed != 1 && page.Next == "" {
			c.fatalf("the webhook is listed %d times", listed)
		}
		var result wire.WebhookResult
		c.send(request{method: "POST", target: adminWebhooks + "/" + made.ID + "/test"}).want(200).json(&result)
		if result.Status != 0 || result.Error == "" || result.At.IsZero() {
			c.fatalf("the result of a test is %+v", result)
		}
		c.send(c.webhookRequest("DELETE", made.ID, "")).want(204)
		c.send(c.webhookRequest("DELETE", made.ID, "")).refused(404, "not_found")
		c.send(c.webhookRequest("GET", made.ID, "")).refused(404, "not_found")
	}},
	{Name: "webhooks/refused", Section: webhookRules, Level: Extended, check: func(c *trial) {
		made := c.hooked()
		for _, body := range []string{`{}`, `{"url": "ftp://e"}`, `{"url": "https://u:p@e/"}`, `{"url": "https://e", "kinds": ["x"]}`, `{"url": "https://e", "prefix": "\u0000"}`} {
			c.send(request{method: "POST", target: adminWebhooks, body: body}).refused(400, "bad_parameter")
		}
		c.send(request{method: "POST", target: adminWebhooks, body: `{"url": "https://e", "secret": "x"}`}).refused(400, "bad_json")
		c.send(c.webhookRequest("PATCH", made.ID, `{"url": "ftp://e"}`, "If-Match", "*")).refused(400, "bad_parameter")
	}},
}
