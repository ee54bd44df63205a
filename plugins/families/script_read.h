/* script_read.h - a script (script.h) read, for a program that does it again or looks at its
 * kernels: sources, buffers, and commands, those of the last run apart. */
#ifndef KEEL_FAMILIES_SCRIPT_READ_H
#define KEEL_FAMILIES_SCRIPT_READ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPLAY_BUFFERS = 12 };

typedef struct replay_command {
  char kind;       /* a letter of script.h */
  uint32_t source; /* of a launch */
  uint64_t groups, group;
  const uint32_t *params;
  uint64_t param_bytes;
  uint32_t buffer_count;
  uint32_t buffers[REPLAY_BUFFERS]; /* UINT32_MAX: absent */
  uint64_t offsets[REPLAY_BUFFERS];
  uint64_t size;
  const char *bytes; /* of a copy from the host; the pattern of a fill */
  uint64_t pattern_size;
} replay_command;

typedef struct replay_script {
  char *data;
  uint64_t *keys, *sizes; /* by buffer */
  uint32_t buffer_count;
  const char **sources;
  uint64_t *source_sizes;
  uint32_t source_count;
  replay_command *commands;
  uint32_t command_count;
  uint32_t last_run; /* where it begins */
} replay_script;

static void replay_fail(const char *what) {
  fprintf(stderr, "the script: %s\n", what);
  exit(1);
}

static void *replay_grow(void *data, uint32_t count, size_t size) {
  if (count & (count - 1)) return data; /* full at each power of two */
  void *more = realloc(data, (count ? 2 * (size_t)count : 1) * size);
  if (!more) replay_fail("no memory");
  return more;
}

typedef struct replay_reader {
  const char *at, *end;
} replay_reader;

static uint64_t replay_word(replay_reader *r) {
  uint64_t value = 0;
  if (r->end - r->at < 8) replay_fail("it ends too early");
  memcpy(&value, r->at, 8);
  r->at += 8;
  return value;
}

static const char *replay_bytes(replay_reader *r, uint64_t size) {
  const char *bytes = r->at;
  uint64_t padded = (size + 7) & ~UINT64_C(7);
  if (padded < size || (uint64_t)(r->end - r->at) < padded)
    replay_fail("it ends too early");
  r->at += padded;
  return bytes;
}

static void replay_buffer(replay_script *s, replay_reader *r,
                          replay_command *c) {
  uint64_t key = replay_word(r), size = replay_word(r);
  uint32_t found = UINT32_MAX;
  if (c->buffer_count == REPLAY_BUFFERS) replay_fail("too many buffers");
  for (uint32_t i = 0; key && i < s->buffer_count && found == UINT32_MAX; i++)
    if (s->keys[i] == key) found = i;
  if (key && found == UINT32_MAX) {
    found = s->buffer_count;
    s->keys = replay_grow(s->keys, found, sizeof *s->keys);
    s->sizes = replay_grow(s->sizes, found, sizeof *s->sizes);
    s->keys[found] = key;
    s->sizes[found] = 0;
    s->buffer_count++;
  }
  if (key && size > s->sizes[found]) s->sizes[found] = size;
  c->buffers[c->buffer_count] = found;
  c->offsets[c->buffer_count++] = replay_word(r);
}

static void replay_source(replay_script *s, replay_reader *r) {
  if (replay_word(r) != s->source_count) replay_fail("a source is missing");
  s->sources = replay_grow(s->sources, s->source_count, sizeof *s->sources);
  s->source_sizes =
      replay_grow(s->source_sizes, s->source_count, sizeof *s->source_sizes);
  uint64_t size = replay_word(r);
  s->source_sizes[s->source_count] = size;
  s->sources[s->source_count++] = replay_bytes(r, size);
}

static void replay_launch(replay_script *s, replay_reader *r,
                          replay_command *c) {
  c->source = (uint32_t)replay_word(r);
  if (c->source >= s->source_count) replay_fail("a launch has no source");
  c->groups = replay_word(r);
  c->group = replay_word(r);
  c->param_bytes = replay_word(r);
  c->params = (const uint32_t *)(const void *)replay_bytes(r, c->param_bytes);
  for (uint64_t n = replay_word(r); n; n--)
    replay_buffer(s, r, c);
}

static void replay_copy(replay_script *s, replay_reader *r, replay_command *c) {
  replay_buffer(s, r, c);
  if (c->kind == 'C') replay_buffer(s, r, c);
  c->size = replay_word(r);
  if (c->kind == 'I') c->bytes = replay_bytes(r, c->size);
  if (c->kind != 'F') return;
  c->pattern_size = replay_word(r);
  c->bytes = replay_bytes(r, c->pattern_size);
}

static void replay_parse(replay_script *s, replay_reader *r) {
  while (r->at < r->end) {
    replay_command c = {.kind = (char)replay_word(r)};
    if (c.kind == 'S') {
      replay_source(s, r);
      continue;
    }
    if (c.kind == 'R') {
      s->last_run = s->command_count;
      continue;
    }
    if (c.kind == 'L')
      replay_launch(s, r, &c);
    else if (c.kind && strchr("IOCF", c.kind))
      replay_copy(s, r, &c);
    else
      replay_fail("an unknown record");
    s->commands =
        replay_grow(s->commands, s->command_count, sizeof *s->commands);
    s->commands[s->command_count++] = c;
  }
}

static replay_script replay_read(const char *path) {
  replay_script s = {0};
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END) != 0) replay_fail("it can't be read");
  long size = ftell(file);
  rewind(file);
  s.data = malloc((size_t)size + 1);
  if (!s.data || fread(s.data, 1, (size_t)size, file) != (size_t)size)
    replay_fail("it can't be read");
  fclose(file);
  if (size < 8 || memcmp(s.data, "KEELFAM1", 8) != 0) replay_fail("it is none");
  replay_reader reader = {s.data + 8, s.data + size};
  replay_parse(&s, &reader);
  if (!s.command_count) replay_fail("it has no command");
  return s;
}

static void replay_free(replay_script *s) {
  free(s->data);
  free(s->keys);
  free(s->sizes);
  free(s->sources);
  free(s->source_sizes);
  free(s->commands);
}

#endif /* KEEL_FAMILIES_SCRIPT_READ_H */
