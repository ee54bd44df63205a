/* host.c - how the plugin uses the host's services. */
#include <dirent.h>

#include "rules/rules.h"

static void host_plugin_path(void) {
  kd_host *host = kc_services_copy();
  host->plugin_path = kc.plugin;
  host->name = "another host 9.9";
  kc_load();
  kd_status status = KC_CALL(kd_status, kp.p.open(host, &kp.instance), "open");
  kc_check(status == KD_OK, "open by a host of another name returned %s: %s",
           kd_status_name(status), kc_message());
  if (status == KD_OK) KC_DO(kp.p.close(kp.instance), "close");
}

static void host_table_kept(void) {
  /* the table of entry is not the one of open: only that one may be kept */
  kc_ok(kc_open(), "open");
  kc_close();
  kd_host *second = kc_services_copy();
  kc_host.closed = false;
  kc_ok(KC_CALL(kd_status, kp.p.open(second, &kp.instance),
                "open(another table)"),
        "open");
  kd_device *device = NULL;
  if (KC_CALL(uint32_t, kp.p.device_count(kp.instance), "device_count")) {
    kc_ok(kp.p.device_open(kp.instance, kc.device, &device), "device_open");
    KC_DO(kp.p.device_close(device), "device_close");
  }
  KC_DO(kp.p.close(kp.instance), "close");
  kc_check(true, " ");
}

/* Everything in the store turns to garbage. */
static void spoil_store(void) {
  char path[800];
  const char *root = kc.scratch ? kc.scratch : "/nowhere";
  DIR *folder = opendir(root);
  for (struct dirent *at = folder ? readdir(folder) : NULL; at;
       at = readdir(folder)) {
    if (strncmp(at->d_name, "store-", 6) != 0) continue;
    snprintf(path, sizeof path, "%s/%s", root, at->d_name);
    FILE *file = fopen(path, "we");
    bool written = file && fputs("garbage", file) >= 0;
    if (!file || fclose(file) != 0 || !written)
      kc_stop("the suite can't spoil the store");
  }
  if (folder) closedir(folder);
}

static void host_cache_bad(void) {
  kc_smoke();
  kc_tidy();
  spoil_store();
  kc_smoke();
}

static void host_optional(void) {
  /* what a host of this version fills may still be of an empty sort */
  kd_host *host = kc_services_copy();
  kc_load();
  kc_check(host->extension(host, "x") == NULL, " ");
  kc_ok(KC_CALL(kd_status, kp.p.open(host, &kp.instance), "open"), "open");
  KC_DO(kp.p.close(kp.instance), "close");
}

#define RULE(severity, id, check, flags, sentence, names, about) \
  KC_RULE(severity, CORE, id, check, flags, "host.h", sentence, names, about)

static const kc_rule rules[] = {
    RULE(MUST, "host.any-host", host_plugin_path, KC_CLOSED,
         "of the host, with its version", "kd_host.name kd_host.plugin_path",
         "Other hosts than Keel's may load the plugin: its name is no"
         " version."),
    RULE(MUST, "host.table-of-open", host_table_kept, KC_CLOSED,
         "keeps the pointer from `open`", "kd_host kd_plugin.open",
         "The table of the entry function may be gone when open is called."),
    RULE(MUST, "host.allocate-alignment", kc_smoke, KC_WATCHED,
         "alignment is a power of two, or 0 for 64", "kd_host.allocate",
         "Watched at every call."),
    RULE(MUST, "host.allocate-overrun", kc_smoke, KC_WATCHED,
         "Host memory for the plugin's own use",
         "kd_host.allocate kd_host.release",
         "Marks in front of and behind each block are looked at when it is"
         " released."),
    RULE(MUST, "host.zones-balanced", kc_smoke, KC_WATCHED, "Spans nest",
         "kd_host.zone_begin kd_host.zone_end",
         "A span that is left open by an early return swallows the rest of the"
         " trace. Watched over all rules."),
    RULE(MUST, "host.cache-untrusted", host_cache_bad, 0,
         "A blob may be damaged or of another version: the plugin checks"
         " it",
         "kd_host.cache_get kd_host.cache_put KD_NOT_FOUND",
         "Disks lie, and versions change: a blob without a checksum crashes the"
         " next start."),
    RULE(MUST, "host.extension-absent", host_optional, KC_CLOSED,
         "A table of services that later versions or other hosts define",
         "kd_host.extension", "NULL is the usual answer."),
};

/* clang-format off */
static const kc_defect defects[] = {
    DEFECT_AS(host_name, "host.any-host", KC_AROUND, "hosts of other names are refused"),
    DEFECT(entry_host_kept, "host.table-of-open", "the table of the first open is used for ever"),
    DEFECT_AS(odd_alignment, "host.allocate-alignment", KC_AROUND, "alignments of 48 bytes are asked for"),
    DEFECT_AS(host_overrun, "host.allocate-overrun", KC_AROUND, "a block is overrun by a byte"),
    DEFECT_AS(zone_left_open, "host.zones-balanced", KC_AROUND, "a span is not ended"),
    DEFECT(cache_trusted, "host.cache-untrusted", "a stored blob is used as it is"),
    DEFECT(extension_used, "host.extension-absent", "an extension is used without a look"),
};
/* clang-format on */

KC_AREA(host, "Use of the host's services");
