/* notes.c - the notes of ranks to each other after a failure. */
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ranks/link/link.h"

enum { ASK, ANSWER, FAILED, LAST_WORDS };
enum {
  BEFORE,
  WAITS_FOR_VALUE,
  INSIDE,
  LEFT,
  BESIDE, /* in a Send or Receive */
  GATHERS /* in keel_link_gather, or keel_link_check */
};

typedef struct note {
  uint32_t kind, rank, where; /* where: of an answer */
  int32_t status;
  uint64_t number; /* of the exchange that it is at */
  char text[KEEL_LINK_NOTE - 24];
} note;

_Static_assert(sizeof(note) == KEEL_LINK_NOTE,
               "a note is as long as notes are");

/* Answers, by rank; has: it has answered. */
typedef struct answers {
  note *list;
  bool *has;
  uint32_t count; /* that have */
} answers;

static note notes_make(const keel_link *link, uint32_t kind, const char *text) {
  note made = {.kind = kind, .rank = link->world.rank};
  snprintf(made.text, sizeof made.text, "%s", text);
  return made;
}

/* A rank that can't be reached has ended; MPI reports it soon enough. */
static void tell_all(const keel_link *link, const note *what) {
  for (uint32_t i = 0; i < link->world.size; i++)
    if (i != link->world.rank) link->mpi->tell(i, what);
}

/* Where this rank is. */
static note position(keel_link *link) {
  note made = notes_make(link, ANSWER, link->at);
  made.number = link->position;
  made.where = link->inside    ? INSIDE
               : link->gathers ? GATHERS
               : link->left    ? LEFT
                               : BEFORE;
  const keel_link_job *pair = keel_link_oldest_pair(link);
  if (made.where != BEFORE) return made;
  if (pair) {
    made.where = BESIDE;
    made.number = pair->number;
    keel_link_pair_text(pair, made.text, sizeof made.text);
    return made;
  }
  pthread_mutex_lock(&link->lock);
  if (link->first && link->first->promise) {
    made.where = WAITS_FOR_VALUE;
    snprintf(made.text, sizeof made.text, "%s%s%s%s", link->first->name,
             *link->first->where ? " \"" : "", link->first->where,
             *link->first->where ? "\"" : "");
  }
  pthread_mutex_unlock(&link->lock);
  return made;
}

static void nap(long milliseconds) {
  const struct timespec time = {0, milliseconds * 1000000};
  nanosleep(&time, NULL);
}

/* The launcher passes it on; text that it has not read when it ends all ranks would be lost. */
void keel_link_print_last(const char *text, uint32_t rank) {
  struct stat facts;
  int unread = 0;
  if (*text) fprintf(stderr, "rank %u: %s\n", (unsigned)rank, text);
  fflush(stderr);
  bool is_pipe = fstat(STDERR_FILENO, &facts) == 0 && S_ISFIFO(facts.st_mode);
  for (int i = 0; is_pipe && i < 200; i++) {
    if (ioctl(STDERR_FILENO, FIONREAD, &unread) != 0 || !unread) break;
    nap(10);
  }
  nap(100); /* which it has for passing it on */
}

static void take_answer(const note *heard, answers *all) {
  if (!all || all->has[heard->rank]) return;
  all->list[heard->rank] = *heard;
  all->has[heard->rank] = true;
  all->count++;
}

static void notes_take(keel_link *link, const note *heard, answers *all) {
  note answer;
  if (heard->rank >= link->world.size) return;
  switch (heard->kind) {
    case ASK:
      answer = position(link);
      link->mpi->tell(heard->rank, &answer);
      return;
    case ANSWER:
      take_answer(heard, all);
      return;
    case FAILED:
      keel_fail_text((keel_status)heard->status, heard->text);
      keel_link_fail(link, (keel_status)heard->status, false);
      return;
    default:
      keel_link_print_last(heard->text, heard->rank);
      link->mpi->abort(heard->status);
  }
}

static bool hear(keel_link *link, answers *all) {
  note heard;
  int there = 1;
  while (there && !link->mpi->hear(&heard, &there) && there)
    notes_take(link, &heard, all);
  return link->failure != NULL;
}

bool keel_link_hear(keel_link *link) {
  return hear(link, NULL);
}

void keel_link_tell_failure(keel_link *link, keel_status status) {
  char text[sizeof(((note *)0)->text)];
  snprintf(text, sizeof text, "rank %u: %s", (unsigned)link->world.rank,
           keel_message());
  note failed = notes_make(link, FAILED, text);
  failed.status = status;
  tell_all(link, &failed);
  keel_fail_text(status, text);
}

/* ---- asking where all are ---------------------------------------------------------------- */

/* Ranks that say the same, "0 to 2, 5". */
static void add_ranks(keel_text *text, const bool *which, uint32_t size) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < size; i++)
    count += which[i];
  keel_text_add(text, count == 1 ? "rank " : "ranks ");
  bool first = true;
  for (uint32_t i = 0; i < size; i++) {
    uint32_t end = i;
    if (!which[i]) continue;
    while (end + 1 < size && which[end + 1])
      end++;
    keel_text_add(text, "%s%u", first ? "" : ", ", (unsigned)i);
    if (end > i)
      keel_text_add(text, end == i + 1 ? ", %u" : " to %u", (unsigned)end);
    first = false;
    i = end;
  }
}

static bool says_same(const note *a, const note *b) {
  return a->number == b->number && a->where == b->where &&
         !strcmp(a->text, b->text);
}

static void add_position(keel_text *text, const note *at, bool one) {
  unsigned long long number = at->number;
  if (at->where == INSIDE)
    keel_text_add(text, one ? " waits in #%llu %s" : " wait in #%llu %s",
                  number, at->text);
  else if (at->where == GATHERS)
    keel_text_add(
        text,
        one ? " waits for the others' bytes (keel_link_gather) before #%llu"
            : " wait for the others' bytes (keel_link_gather) before #%llu",
        number);
  else if (at->where == BESIDE)
    keel_text_add(text, one ? " waits in %s" : " wait in %s", at->text);
  else if (at->where == WAITS_FOR_VALUE)
    keel_text_add(text,
                  one ? " is at #%llu %s, whose X is not ready"
                      : " are at #%llu %s, whose X is not ready",
                  number, at->text);
  else if (at->where == LEFT)
    keel_text_add(text, one ? " has left" : " have left");
  else
    keel_text_add(text, one ? " is before #%llu" : " are before #%llu", number);
}

/* "rank 3 is before #17; ranks 0 to 2 wait in #17 AllReduce "layer4/add"" */
static void notes_describe(const keel_link *link, const answers *all,
                           keel_text *text) {
  uint32_t size = link->world.size;
  bool *done = calloc(size, sizeof *done), *same = calloc(size, sizeof *same);
  for (uint32_t i = 0; done && same && i < size; i++) {
    uint32_t count = 0;
    if (done[i]) continue;
    for (uint32_t k = i; k < size; k++) {
      same[k] = !done[k] && all->has[k] == all->has[i] &&
                (!all->has[i] || says_same(&all->list[i], &all->list[k]));
      done[k] |= same[k];
      count += same[k];
    }
    keel_text_add(text, i ? "; " : "");
    add_ranks(text, same, size);
    if (all->has[i])
      add_position(text, &all->list[i], count == 1);
    else
      keel_text_add(text, count == 1 ? " does not answer" : " do not answer");
    memset(same, 0, size * sizeof *same);
  }
  free(done);
  free(same);
}

keel_status keel_link_ask(keel_link *link) {
  uint32_t size = link->world.size;
  note mine = position(link), question = notes_make(link, ASK, "");
  answers all = {calloc(size, sizeof *all.list), calloc(size, sizeof *all.has),
                 0};
  keel_text text = {0};
  keel_status status = KD_DEADLINE_EXCEEDED;
  if (all.list && all.has) {
    take_answer(&mine, &all);
    tell_all(link, &question);
    for (int i = 0; i < 100 && all.count < size && !hear(link, &all); i++)
      nap(10);
    notes_describe(link, &all, &text);
  }
  if (link->failure)
    status = keel_tensor_query(link->failure); /* another one was first */
  else
    keel_fail(status, "after %.3g s: %s", (double)link->timeout * 1e-9,
              keel_text_get(&text));
  keel_text_free(&text);
  free(all.list);
  free(all.has);
  return status;
}

/* ---- last words --------------------------------------------------------------------------- */

void keel_link_hear_last(keel_link *link, int seconds) {
  for (int i = 0; i < 100 * seconds; i++) {
    hear(link, NULL);
    nap(10);
  }
}

void keel_link_end(keel_link *link) {
  note last = notes_make(link, LAST_WORDS, link->last_words);
  last.status = link->last_status;
  if (link->world.rank) {
    link->mpi->tell(0, &last);
    /* rank 0 ends all, if it can: it may take seconds to print on a busy machine */
    keel_link_hear_last(link, 6);
  }
  keel_link_print_last(link->last_words, link->world.rank);
  link->mpi->abort(link->last_status);
}
