/* probe.c - what the plugin says of itself, found out by a child of its own: it may
 * crash or hang. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "runner/running.h"
#include "suite/suite.h"
/**/
#include "suite/channel.h"

static void probe_check(void) {
  kc_load();
  kc_note("loaded 1");
  kc_note("name %s", kp.p.name ? kp.p.name : "?");
  kc_note("vendor %s", kp.p.vendor ? kp.p.vendor : "?");
  kc_note("version %s", kp.p.version ? kp.p.version : "?");
  kc_note("abi %u", kp.p.abi_version);
  kc_note("abi_min %u", kp.p.abi_min);
  uint32_t claims = 0;
  for (int i = 0; i < KC_LEVEL_COUNT; i++)
    claims |= (uint32_t)kc_claims((kc_level)i) << i;
  kc_note("claims %u", claims);
  if (!kc_check(kp.p.memory && kp.p.open && kp.p.close && kp.p.device_count &&
                    kp.p.device_info && kp.p.device_open && kp.p.device_close,
                "a needed slot or table is NULL"))
    return;
  kc_ok(kc_open(), "open");
  uint32_t count =
      KC_CALL(uint32_t, kp.p.device_count(kp.instance), "device_count");
  kc_note("devices %u", count);
  if (count <= kc.device)
    kc_stop("there is no device %u; the plugin has %u: %s", kc.device, count,
            kc_host.last_log);
  const kd_device_info *info = kc_info();
  kc_note("device %s:%u %s, %s", kp.p.name ? kp.p.name : "?", kc.device,
          info->name ? info->name : "?", info->kind ? info->kind : "?");
  /* a copy of 64 KiB takes a fast device some 10 us */
  kc_buffer *buffer = kc_buffer_make(65536);
  char *data = kc_take(65536);
  uint64_t begin = kc_now();
  for (int i = 0; i < 32; i++) {
    kc_write(buffer, 0, data, 65536);
    kc_read(buffer, 0, data, 65536);
  }
  kc_note("time %llu", (unsigned long long)(kc_now() - begin));
  free(data);
}

const kc_rule kc_probe_rule = {.id = "probe", .check = probe_check};

static void one_fact(kc_facts *out, const char *line) {
  char text[160];
  const char *space = strchr(line, ' ');
  if (!space) return;
  snprintf(text, sizeof text, "%.*s", (int)(space - line), line);
  const char *value = space + 1;
  unsigned long long number = strtoull(value, NULL, 10);
  if (!strcmp(text, "loaded")) out->loaded = true;
  if (!strcmp(text, "name")) snprintf(out->name, sizeof out->name, "%s", value);
  if (!strcmp(text, "vendor"))
    snprintf(out->vendor, sizeof out->vendor, "%s", value);
  if (!strcmp(text, "version"))
    snprintf(out->version, sizeof out->version, "%s", value);
  if (!strcmp(text, "abi")) out->abi_version = (uint32_t)number;
  if (!strcmp(text, "abi_min")) out->abi_min = (uint32_t)number;
  if (!strcmp(text, "claims")) out->claims = (uint32_t)number;
  if (!strcmp(text, "devices")) out->device_count = (uint32_t)number;
  if (!strcmp(text, "device"))
    snprintf(out->device, sizeof out->device, "%s", value);
  if (!strcmp(text, "time")) {
    out->open = true;
    out->factor = (double)number / 2e6;
    if (out->factor < 1) out->factor = 1;
    if (out->factor > 100) out->factor = 100;
  }
}

/* What a child that was too late was in; it is ended by then. */
static void say_late(const kc_child *child, kc_facts *out) {
  uint32_t last = (atomic_load(&child->page->at) + KC_RING - 1) % KC_RING;
  snprintf(out->why, sizeof out->why,
           "it hangs: last call %s (if it is only slow: --time-scale)",
           child->page->calls[last]);
}

/* Waits for the end; true where it did not come in time. */
static bool probe_wait_for(const kc_options *options, kc_child *child,
                           int *out_status) {
  double limit = 20e9 * options->time_scale;
  bool late = false;
  uint64_t ended = 0;
  while (!kc_child_ended(child, out_status)) {
    struct pollfd fds[2];
    kc_child_poll(child, fds);
    poll(fds, 2, 20);
    if (kc_interrupted()) kc_child_kill(child);
    kc_child_read(child, NULL);
    kc_clock_look(child, options->time_scale);
    if (child->done && !ended) ended = kc_now();
    if ((!late && child->clock.spent > limit) ||
        (ended && kc_now() - ended > KC_S)) {
      late = !child->done;
      kc_child_kill(child); /* an end that hangs is another rule's business */
    }
  }
  kc_child_read(child, NULL);
  return late;
}

static void take_facts(kc_facts *out, const kc_child *child,
                       const kc_case_result *one, int status) {
  char *rest = one ? one->note : NULL, *save = NULL;
  for (char *line = rest ? strtok_r(rest, "\n", &save) : NULL; line;
       line = strtok_r(NULL, "\n", &save))
    one_fact(out, line);
  char *report = NULL;
  if (!child->done && kc_report_says(&child->report, &report))
    snprintf(out->why, sizeof out->why, "%s", report);
  else if (WIFSIGNALED(status) && !child->done)
    snprintf(out->why, sizeof out->why, "it crashed: %.800s",
             child->page->crash);
  else if (one && one->message)
    snprintf(out->why, sizeof out->why, "%s", one->message);
  else if (!child->done)
    snprintf(out->why, sizeof out->why,
             "the process ended with status %d in the middle: %.800s",
             WEXITSTATUS(status), child->said);
  free(report);
}

/* True where it was too late. */
static bool probe_once(const kc_options *options, kc_facts *out) {
  kc_child child = {0};
  kc_rule_result result = {.id = (char *)(uintptr_t) "probe"};
  int status = 0;
  memset(out, 0, sizeof *out);
  out->factor = 1;
  if (!kc_child_start(&child, options, &kc_probe_rule, &result, 0, NULL, 1)) {
    snprintf(out->why, sizeof out->why, "no child could be started: %s",
             strerror(errno));
    return false;
  }
  bool late = probe_wait_for(options, &child, &status);
  take_facts(out, &child, result.case_count ? &result.cases[0] : NULL, status);
  if (late) say_late(&child, out);
  if (out->open && out->why[0]) out->open = false;
  kc_child_close(&child);
  for (uint32_t i = 0; i < result.case_count; i++) {
    free(result.cases[i].name);
    free(result.cases[i].message);
    free(result.cases[i].note);
  }
  free(result.cases);
  return late;
}

void kc_probe(const kc_options *options, kc_facts *out) {
  if (probe_once(options, out) && !options->no_reruns) probe_once(options, out);
}
