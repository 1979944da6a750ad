package instance

import (
	"slices"
	"strings"
	"testing"

	"sluice/internal/task"
	"sluice/metastore"
	"sluice/storage"
	"sluice/test/testenv"
)

// TestRestoredInstanceDeliversNothing: a backup has the webhooks with their progress, and a restore
// pauses their task with a reason. A part of an instance has none.
// Invariant 241.
func TestRestoredInstanceDeliversNothing(t *testing.T) {
	t.Parallel()
	data, repo := newSource(t), newRepository()
	backedUp(t, data, repo)
	_, result := restored(t, repo, RestoreOptions{})
	testenv.Equal(t, len(result.Returned.Waiting), 0, "tasks that wait without webhooks")
	s := testenv.Must(storage.Open(t.Context(), storage.Location{Data: data}, storage.Options{}))(t)
	w := metastore.Webhook{ID: "w", WebhookSettings: metastore.WebhookSettings{URL: "https://e", Secret: []byte("sealed")}, WebhookProgress: metastore.WebhookProgress{Ahead: 7}}
	w = testenv.Must(s.Meta.CreateWebhook(t.Context(), w, nil, nil))(t)
	testenv.OK(t, s.Close())
	backedUp(t, data, repo)
	again, result := restored(t, repo, RestoreOptions{})
	if !slices.Contains(result.Returned.Waiting, task.Webhooks) {
		t.Errorf("the tasks that wait are %v", result.Returned.Waiting)
	}
	if got := testenv.Must(again.Meta.Webhook(t.Context(), "w"))(t); got.URL != w.URL || got.Ahead != 7 || !got.Created.Equal(w.Created) {
		t.Errorf("the restored webhook is %+v", got)
	}
	tasks := testenv.Must(again.Meta.ListTasks(t.Context()))(t)
	if len(tasks) != 1 || tasks[0].Name != string(task.Webhooks) || tasks[0].Paused.IsZero() || !strings.Contains(tasks[0].Reason, "restored from a backup") {
		t.Errorf("the tasks are %+v", tasks)
	}
	part, _ := restored(t, repo, RestoreOptions{Account: "a"})
	testenv.Equal(t, len(testenv.Must(part.Meta.ListWebhooks(t.Context(), "", 9))(t)), 0, "webhooks in a part")
}
