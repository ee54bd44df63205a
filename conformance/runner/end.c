/* end.c - what became of a child: a crash, a hang, an exit in the middle. */
#include <string.h>
#include <sys/wait.h>

#include "runner/running.h"
#include "suite/suite.h"
/**/
#include "suite/channel.h"

/* The calls that have not returned, each once, with how many threads are in it. */
static void add_open_calls(const kc_page *page, char **text) {
  char call[KC_RING_TEXT];
  for (uint32_t i = 0; i < KC_CALLERS; i++) {
    uint32_t before = 0, count = 0;
    if (!atomic_load(&page->in[i])) continue;
    snprintf(call, sizeof call, "%s", page->open[i]);
    for (uint32_t k = 0; k < KC_CALLERS; k++) {
      bool same = atomic_load(&page->in[k]) &&
                  !strncmp(call, page->open[k], sizeof call);
      count += same;
      before += same && k < i;
    }
    if (before) continue;
    kc_text_more(text, "has not returned: %s", call);
    if (count > 1) kc_text_more(text, "  on %u threads", count);
  }
}

static void add_calls(kc_child *child, char **text) {
  uint32_t at = atomic_load(&child->page->at);
  uint32_t from = at > 12 ? at - 12 : 0;
  if (at) kc_text_more(text, "last calls:");
  for (; from < at; from++)
    kc_text_more(text, "  %.*s", (int)KC_RING_TEXT - 1,
                 child->page->calls[from % KC_RING]);
  add_open_calls(child->page, text);
}

/* The case that something happened to: the one that runs, or the end. */
static kc_case_result *case_of(kc_child *child) {
  if (child->now) return child->now;
  char name[300];
  if (child->page->name[0] && !child->done)
    snprintf(name, sizeof name, "%s", child->page->name);
  else
    snprintf(name, sizeof name, "%s/%s", child->rule->id,
             child->done ? "exit" : "begin");
  return kc_results_case(child->result, name);
}

void kc_note_end(kc_child *child, int status) {
  if (child->garbage) {
    kc_case_result *one = case_of(child);
    one->status = KC_FAIL;
    one->checks++;
    kc_text_more(&one->message,
                 "%llu bytes that the suite didn't write came through a file"
                 " descriptor that is not the plugin's",
                 (unsigned long long)child->garbage);
  }
  if (child->hung) return;
  bool whole = child->done || child->stopped;
  kc_child_report(child);
  if (whole && WIFEXITED(status) &&
      (WEXITSTATUS(status) == 0 || child->report.noted))
    return; /* a sanitizer that reported something ends with a status of its own */
  kc_case_result *one = case_of(child);
  one->status = KC_CRASH;
  one->checks++;
  if (WIFSIGNALED(status)) {
    kc_text_more(&one->message, "%s%s", strsignal(WTERMSIG(status)),
                 child->done ? " while the process ended" : "");
    if (child->page->crash[0])
      kc_text_more(&one->detail, "%.3000s", child->page->crash);
  } else {
    kc_text_more(&one->message, "the process ended with status %d%s",
                 WEXITSTATUS(status),
                 whole ? ""
                 : child->report.begun
                     ? " in the middle"
                     : " in the middle: something called exit");
  }
  add_calls(child, &one->detail);
  if (child->said[0] && !child->report.begun)
    kc_text_more(&one->detail, "it printed:\n%s", child->said);
}

void kc_note_hang(const kc_running *run, kc_child *child, const char *text) {
  kc_case_result *one = case_of(child);
  one->status = KC_HANG;
  one->load = kc_load_of_machine();
  one->checks++;
  kc_text_more(&one->message, "%s", text);
  add_calls(child, &one->detail);
  if (!run->options->no_reruns) kc_child_stacks(child, &one->detail);
  child->hung = true;
}

void kc_note_flood(kc_child *child) {
  kc_case_result *one = case_of(child);
  one->status = KC_FAIL;
  one->checks++;
  kc_text_more(&one->message, "it writes without end");
  child->hung = true;
}
