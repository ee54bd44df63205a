/* results.h - what a run found: in memory, and as results.jsonl, the one record
 * that every report is rendered from. */
#ifndef KC_RESULTS_H
#define KC_RESULTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "suite/rule.h"
#include "system/save.h"

typedef enum kc_status {
  KC_PASS,
  KC_WARNING, /* a should-rule that doesn't hold */
  KC_FAIL,
  KC_CRASH,     /* a signal, or an exit in the middle */
  KC_HANG,      /* no sign of life within the deadline */
  KC_UNCLAIMED, /* the tables don't claim it */
  KC_NOT_RUN,   /* what comes before it failed */
  KC_XFAIL,     /* fails, as the expectations say */
  KC_XPASS,     /* passes, against the expectations */
  KC_ERROR,     /* the suite's own */
  KC_UNTESTED,  /* claimed, and nothing was found to test it with */
  KC_STATUS_COUNT
} kc_status;

const char *kc_status_name(kc_status status);
bool kc_status_failed(kc_status status);  /* fail, crash, hang, xpass, error */
bool kc_status_skipped(kc_status status); /* unclaimed, untested, not run */

typedef struct kc_case_result {
  char *name;
  kc_status status;
  uint64_t checks, time;      /* ns */
  char *message;              /* why, or NULL */
  char *note;                 /* a figure, or NULL */
  char *detail;               /* signal, backtrace, last calls, or NULL */
  uint32_t runs, failed_runs; /* where it was run again */
  /* not in results.jsonl: a process of its own missed a deadline; a check failed before
   * that; so busy was the machine then */
  bool late, failed;
  double load;
} kc_case_result;

typedef struct kc_rule_result {
  const kc_rule *rule; /* NULL for a rule that this suite doesn't know */
  char *id;
  kc_severity severity;
  kc_level level;
  kc_status status;
  uint64_t checks, time;
  uint32_t failed; /* cases */
  char *reason;    /* why it was skipped */
  kc_case_result *cases;
  uint32_t case_count, case_capacity;
  bool judged, written;
  bool
      cut; /* of its cases some did not run, behind one that ended the process */
  double weight; /* of the run's time, while it goes on */
} kc_rule_result;

typedef struct kc_results {
  char *plugin_path, *plugin_digest, *name, *vendor, *version, *device;
  char *command, *suite, *rules_digest, *suite_digest, *started, *host;
  uint32_t abi_version, abi_min, device_index;
  uint64_t seed;
  int level;        /* claimed */
  uint32_t options; /* bit i: kc_level KC_PROFILE + i is claimed */
  bool partial;     /* --quick, filters, shards: not valid for a claim */
  double factor;
  uint64_t time;
  kc_rule_result *rules;
  uint32_t rule_count;
  uint32_t passed, failed, skipped, warnings;
  bool complete; /* has its end, and the digest over all lines fits */
  bool tampered; /* the digest doesn't fit */
  keel_save save;
  FILE *file; /* being written, by `save` */
  struct kc_sha *digest;
} kc_results;

kc_rule_result *kc_results_rule(const kc_results *results, const char *id);
kc_case_result *kc_results_case(kc_rule_result *rule, const char *name);
/* Whether a case's name stands for what the process did before its first case or after its
 * last: it can't be run alone. */
bool kc_is_no_case(const kc_rule_result *rule, const char *name);
void kc_results_free(kc_results *results);

/* ---- causes and effects: basis.c ----------------------------------------------- */

/* The rule number `index` that a rule stands on, which is tried first; NULL past the last. */
const char *kc_basis_at(const char *id, uint32_t index, char *out,
                        size_t capacity);
/* Whether a rule that this one stands on failed: which, until the next call; NULL: none has.
 * out_open: one is not judged yet. */
const char *kc_basis_failed(const kc_results *results, const char *id,
                            bool *out_open);
/* Puts rules in the order of causes: load, mem, copy ... kernel ... abi. */
void kc_results_order(kc_results *results);

/* Writing results.jsonl, a line at a time. The file takes its place at the end, or, of a run
 * that is interrupted, by kc_results_keep; `results` stays where it is until then. */
bool kc_results_begin(kc_results *results, const char *path);
void kc_results_write_rule(kc_results *results, kc_rule_result *rule);
void kc_results_keep(kc_results *results);
void kc_results_end(kc_results *results);
/* Reads one. False with a message on stderr where it is none. */
bool kc_results_read(const char *path, kc_results *out_results);

/* Sets a text, or adds to it: it is printable, be its parts a plugin's. */
void kc_text_set(char **text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void kc_text_more(char **text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- digests (FIPS 180-4, SHA-256) ------------------------------------------- */

typedef struct kc_sha {
  uint32_t h[8];
  uint64_t size;
  uint8_t block[64];
} kc_sha;
void kc_sha_begin(kc_sha *sha);
void kc_sha_add(kc_sha *sha, const void *data, uint64_t size);
void kc_sha_end(kc_sha *sha, char out_hex[65]);
/* Of a file; false where it can't be read. */
bool kc_sha_file(const char *path, char out_hex[65]);
/* Of the list of rules: ids, severities, levels. */
void kc_rules_digest(char out_hex[65]);

#endif /* KC_RESULTS_H */
