/* generate.c - tokens in, tokens out: a language model with a cache.
 *
 * The model is one as onnxruntime-genai publishes: inputs input_ids, attention_mask, position_ids
 * (or none) and past_key_values.0.key and so on, outputs logits and present.0.key and so on. Its
 * cache has room for the whole text from the start and is given to each run as a donation, so
 * that GroupQueryAttention writes new rows where they belong. A model that appends rows to its
 * cache instead works, too; its cache grows, and is copied.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <keel/debug.h>
#include <keel/keel.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "model.h"
#include "sampling.h"

#define TOKENS_MOST 1000000

static const char usage[] =
    "usage: generate [OPTION]... MODEL.onnx\n"
    "       generate [OPTION]... --random SIZES\n"
    "\n"
    "Continues a text of tokens, and prints the new ones.\n"
    "\n"
    "  --tokens LIST      the text: 1,15043,3186; or so many at random: x16 "
    "(1)\n"
    "  --count N          how many tokens to add (64)\n"
    "  --end N            ends after this token (none)\n"
    "  --top-p P          draws of the likeliest tokens that come to P; "
    "without\n"
    "                     it, the likeliest token is taken\n"
    "  --temperature T    divides the logits that are drawn by (1)\n"
    "  --seed N           of what is drawn, and of random weights (1)\n"
    "  --device D         where it runs (the default device)\n"
    "  --threads N        run on N threads, the calling one among them\n"
    "  --option P.N=V     give plugin P the option N\n"
    "  --random SIZES     a model of random weights in 4 bits: 0.5b or tiny, "
    "or\n"
    "                     either with changes: tiny,layers=3,vocab=500\n"
    "  --save FILE        writes that model, and ends\n"
    "  --profile          where the time of the added tokens goes, by op\n"
    "  --help             this text\n"
    "\n"
    "Tokens go to standard output; speed, memory and how often a cache was\n"
    "copied to standard error.\n";

typedef struct options {
  const char *model, *random, *device, *save;
  const char *plugin_options[8];
  uint32_t option_count;
  int64_t *tokens, token_count, drawn; /* drawn: how many at random; 0: none */
  int64_t vocabulary; /* of a random model; 0: see its logits */
  int64_t count, end;
  long threads; /* 0: as Keel sees fit */
  sampling how;
  bool profile;
} options;

/* What an input or output of the model is for. */
typedef enum role { IDS, MASK, PLACES, PAST, LOGITS, PRESENT, UNKNOWN } role;

typedef struct generation {
  const options *options;
  keel_context *context;
  keel_device *device;
  keel_plan *plan;
  uint32_t input_count, output_count;
  role *roles;        /* of inputs, then of outputs */
  uint32_t *presents; /* of inputs: the output that is their next value */
  uint32_t *donated, donated_count;
  keel_tensor **inputs, **outputs;
  int64_t room;           /* places of the cache; 0: it grows */
  int64_t done;           /* tokens that are in it */
  uint64_t copies, moves; /* of caches; moves: those whose address is known */
  float *logits;
  int64_t vocabulary;
  double prompt_time, token_time;
} generation;

static bool told; /* an error that is not Keel's was printed */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- the model's inputs and outputs ---------------------------------------------------- */

static bool begins(const char *name, const char *with) {
  return !strncmp(name, with, strlen(with));
}

static role role_of(const char *name, bool is_input) {
  if (!is_input)
    return !strcmp(name, "logits")   ? LOGITS
           : begins(name, "present") ? PRESENT
                                     : UNKNOWN;
  return !strcmp(name, "input_ids")        ? IDS
         : !strcmp(name, "attention_mask") ? MASK
         : !strcmp(name, "position_ids")   ? PLACES
         : begins(name, "past")            ? PAST
                                           : UNKNOWN;
}

/* past_key_values.3.key and present.3.key: what follows the first word. */
static const char *rest_of(const char *name) {
  static const char *const words[] = {"past_key_values", "present_key_values",
                                      "present", "past"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (begins(name, words[i])) return name + strlen(words[i]);
  return name;
}

static bool find_present(generation *g, uint32_t input, const char *name) {
  for (uint32_t i = 0; i < g->output_count; i++) {
    keel_port port;
    keel_plan_output(g->plan, i, &port);
    if (g->roles[g->input_count + i] != PRESENT ||
        strcmp(rest_of(port.name), rest_of(name)) != 0)
      continue;
    for (uint32_t k = 0; k < g->donated_count; k++)
      if (g->presents[g->donated[k]] == i) {
        fprintf(stderr, "generate: %s is the next value of two inputs\n",
                port.name);
        return false;
      }
    g->presents[input] = i;
    return true;
  }
  fprintf(stderr, "generate: the model has no output for the next %s\n", name);
  return false;
}

static bool is_cache(const keel_port *port) {
  if (port->rank == 4 && port->dims[1] > 0 && port->dims[3] > 0) return true;
  fprintf(stderr,
          "generate: %s must be [batch, heads, places, size], with heads and"
          " size known\n",
          port->name);
  return false;
}

static bool read_ports(generation *g) {
  bool ids = false, logits = false;
  for (uint32_t i = 0; i < g->output_count; i++) {
    keel_port port;
    keel_plan_output(g->plan, i, &port);
    g->roles[g->input_count + i] = role_of(port.name, false);
    logits |= g->roles[g->input_count + i] == LOGITS;
  }
  for (uint32_t i = 0; i < g->input_count; i++) {
    keel_port port;
    keel_plan_input(g->plan, i, &port);
    g->roles[i] = role_of(port.name, true);
    ids |= g->roles[i] == IDS;
    if (g->roles[i] == UNKNOWN) {
      fprintf(stderr,
              "generate: nothing is known of the model's input %s; it should be"
              " input_ids, attention_mask, position_ids or past_...\n",
              port.name);
      return false;
    }
    if (g->roles[i] != PAST) continue;
    if (!is_cache(&port) || !find_present(g, i, port.name)) return false;
    g->donated[g->donated_count++] = i;
  }
  if (ids && logits && g->donated_count) return true;
  if (ids && logits) {
    fprintf(stderr,
            "generate: the model has no cache: no inputs past_key_values.0.key"
            " and so on; export it with a cache\n");
    return false;
  }
  fprintf(stderr, "generate: the model has no %s\n",
          ids ? "output logits" : "input input_ids");
  return false;
}

static keel_plan *take_memory(generation *g, keel_plan *plan) {
  g->plan = plan;
  g->input_count = keel_plan_input_count(plan);
  g->output_count = keel_plan_output_count(plan);
  g->roles = calloc(g->input_count + g->output_count + 1, sizeof *g->roles);
  g->presents = calloc(g->input_count + 1, sizeof *g->presents);
  g->donated = calloc(g->input_count + 1, sizeof *g->donated);
  g->inputs = calloc(g->input_count + 1, sizeof(keel_tensor *));
  g->outputs = calloc(g->output_count + 1, sizeof(keel_tensor *));
  return g->roles && g->presents && g->donated && g->inputs && g->outputs
             ? plan
             : NULL;
}

/* ---- one run ------------------------------------------------------------------------------ */

static keel_status integers(generation *g, role of, int64_t rows,
                            const int64_t *tokens, keel_tensor **out) {
  int64_t all = g->done + rows;
  int64_t length = of == MASK ? g->room ? g->room : all : rows;
  const int64_t dims[] = {1, length};
  int64_t *list = malloc((size_t)length * sizeof *list);
  if (!list) return KD_OUT_OF_MEMORY;
  for (int64_t i = 0; i < length; i++)
    list[i] = of == IDS ? tokens[i] : of == MASK ? i < all : g->done + i;
  keel_status status =
      keel_tensor_create(g->context, KD_I64, 2, dims, list, out);
  free(list);
  return status;
}

static keel_status set_inputs(generation *g, int64_t rows,
                              const int64_t *tokens) {
  for (uint32_t i = 0; i < g->input_count; i++) {
    if (g->roles[i] == PAST) continue;
    keel_tensor_release(g->inputs[i]);
    g->inputs[i] = NULL;
    keel_status status = integers(g, g->roles[i], rows, tokens, &g->inputs[i]);
    if (status != KD_OK) return status;
  }
  return KD_OK;
}

static keel_status empty_caches(generation *g) {
  for (uint32_t i = 0; i < g->input_count; i++) {
    if (g->roles[i] != PAST) continue;
    keel_port port;
    keel_plan_input(g->plan, i, &port);
    const int64_t dims[] = {1, port.dims[1], g->room, port.dims[3]};
    keel_tensor_release(g->inputs[i]);
    g->inputs[i] = NULL;
    keel_status status = keel_tensor_fill(g->context, g->device, port.dtype, 4,
                                          dims, NULL, &g->inputs[i]);
    if (status != KD_OK) return status;
  }
  return KD_OK;
}

/* Of each row the last one's. */
static keel_status read_logits(generation *g, keel_tensor *logits) {
  const keel_attr to = KEEL_INT("to", 1); /* ONNX's number of f32 */
  uint32_t rank = keel_tensor_rank(logits);
  int64_t width = rank ? keel_tensor_dims(logits)[rank - 1] : 0;
  int64_t count = keel_tensor_elements(logits);
  keel_tensor *here = NULL, *wide = NULL;
  if (width < 1 || count < width || (g->vocabulary && g->vocabulary != width)) {
    fprintf(stderr,
            "generate: the logits must be [batch, rows, tokens], of the same"
            " tokens each time\n");
    told = true;
    return KD_INVALID_ARGUMENT;
  }
  if (!g->logits) g->logits = malloc((size_t)width * sizeof *g->logits);
  if (!g->logits) return KD_OUT_OF_MEMORY;
  g->vocabulary = width;
  keel_status status = keel_tensor_to(logits, NULL, &here);
  if (status == KD_OK && keel_tensor_dtype(here) != KD_F32) {
    status = keel_call(g->context, "Cast", &to, 1, &here, 1, &wide, 1);
    keel_tensor_release(here);
    here = NULL;
    if (status == KD_OK) status = keel_tensor_to(wide, NULL, &here);
  }
  const float *data = status == KD_OK ? keel_tensor_data(here) : NULL;
  if (data)
    memcpy(g->logits, data + count - width, (size_t)width * sizeof *data);
  else if (status == KD_OK)
    status = KD_INTERNAL;
  keel_tensor_release(here);
  keel_tensor_release(wide);
  return status;
}

/* Outputs become the next run's inputs; a cache that lies elsewhere now was copied. */
static void take_caches(generation *g, const void *const *before) {
  for (uint32_t i = 0; i < g->input_count; i++) {
    if (g->roles[i] != PAST) continue;
    g->inputs[i] = g->outputs[g->presents[i]];
    g->outputs[g->presents[i]] = NULL;
    const void *after = keel_tensor_data(g->inputs[i]);
    g->moves += before[i] && after;
    g->copies += before[i] && after && before[i] != after;
  }
}

static keel_status run(generation *g, int64_t rows, const int64_t *tokens) {
  const keel_run_params how = {.struct_size = sizeof how,
                               .donated = g->donated,
                               .donated_count = g->donated_count};
  const void **before = calloc(g->input_count + 1, sizeof *before);
  keel_status status = before ? set_inputs(g, rows, tokens) : KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; status == KD_OK && i < g->input_count; i++)
    if (g->roles[i] == PAST) before[i] = keel_tensor_data(g->inputs[i]);
  if (status == KD_OK) {
    status = keel_plan_run_with(g->plan, &how, g->inputs, g->input_count,
                                g->outputs, g->output_count);
    for (uint32_t i = 0; i < g->donated_count; i++)
      g->inputs[g->donated[i]] = NULL; /* the run's, whatever it returned */
  }
  for (uint32_t i = 0; status == KD_OK && i < g->output_count; i++)
    if (g->roles[g->input_count + i] == LOGITS)
      status = read_logits(g, g->outputs[i]);
  if (status == KD_OK) {
    g->done += rows;
    take_caches(g, before);
  }
  for (uint32_t i = 0; i < g->output_count; i++) {
    keel_tensor_release(g->outputs[i]);
    g->outputs[i] = NULL;
  }
  free(before);
  return status;
}

/* ---- the text -------------------------------------------------------------------------------- */

/* Whether each cache has the places that it was given: rows were written in place. */
static bool kept_its_places(const generation *g) {
  for (uint32_t i = 0; i < g->input_count; i++)
    if (g->roles[i] == PAST && (keel_tensor_rank(g->inputs[i]) != 4 ||
                                keel_tensor_dims(g->inputs[i])[2] != g->room))
      return false;
  return true;
}

/* The whole text. If the model turns out to append to its cache, once more from an empty one;
 * if that fails, too, what was wrong at first is said. */
static keel_status read_text(generation *g) {
  const options *o = g->options;
  char first[1024] = "";
  for (int i = 0; i < 2; i++) {
    g->done = 0;
    g->room = i ? 0 : o->token_count + o->count;
    g->copies = g->moves = 0;
    keel_status status = empty_caches(g);
    double begin = now();
    if (status == KD_OK) status = run(g, o->token_count, o->tokens);
    g->prompt_time = now() - begin;
    if (status == KD_OK && (i || kept_its_places(g))) return KD_OK;
    if (i && *first)
      fprintf(stderr, "generate: with a cache of %lld places: %s\n",
              (long long)(o->token_count + o->count), first);
    if (i) return status;
    if (status != KD_OK) snprintf(first, sizeof first, "%s", keel_message());
  }
  return KD_OK;
}

static keel_status add_tokens(generation *g, int64_t *out_count) {
  sampling how = g->options->how;
  *out_count = 0;
  for (int64_t i = 0; i < g->options->count; i++) {
    int64_t token = sample(&how, g->logits, g->vocabulary);
    if (token < 0) return KD_OUT_OF_MEMORY;
    printf("%s%lld", i ? " " : "", (long long)token);
    fflush(stdout);
    ++*out_count;
    if (token == g->options->end || i + 1 == g->options->count) break;
    if (!i && g->options->profile) keel_plan_profile(g->plan, KEEL_PROFILE_OPS);
    double begin = now();
    keel_status status = run(g, 1, &token);
    if (status != KD_OK) {
      printf("\n");
      return status;
    }
    g->token_time += now() - begin;
  }
  printf("\n");
  return KD_OK;
}

/* ---- what is said at the end ------------------------------------------------------------------ */

static int by_time(const void *a, const void *b) {
  const keel_profile_line *x = a, *y = b;
  return x->time < y->time ? 1 : x->time > y->time ? -1 : 0;
}

/* By op: a model has many nodes of few kinds. */
static void print_profile(keel_plan *plan) {
  enum { KINDS = 256 };
  static keel_profile_line kinds[KINDS];
  uint32_t count = 0;
  uint64_t all = 0;
  keel_profile_line line;
  for (uint32_t i = 0; keel_plan_profile_line(plan, i, &line) == KD_OK; i++) {
    uint32_t k = 0;
    while (k < count && (strcmp(kinds[k].op, line.op) != 0 ||
                         strcmp(kinds[k].device, line.device) != 0))
      k++;
    all += line.time;
    if (k == KINDS || !line.calls) continue;
    if (k == count) {
      kinds[count++] = line;
      continue;
    }
    kinds[k].time += line.time;
    kinds[k].calls += line.calls;
  }
  qsort(kinds, count, sizeof *kinds, by_time);
  for (uint32_t k = 0; k < count && k < 20; k++)
    fprintf(stderr, "  %9.3f ms %5.1f %%  %6llu calls  %s on %s\n",
            (double)kinds[k].time * 1e-6,
            all ? 100 * (double)kinds[k].time / (double)all : 0,
            (unsigned long long)kinds[k].calls, kinds[k].op, kinds[k].device);
}

static uint64_t cache_bytes(const generation *g) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < g->input_count; i++)
    if (g->roles[i] == PAST) bytes += keel_tensor_size(g->inputs[i]);
  return bytes;
}

static void print_facts(const generation *g, int64_t added) {
  const options *o = g->options;
  struct rusage used = {0};
  getrusage(RUSAGE_SELF, &used);
  fprintf(stderr, "text: %lld tokens in %.3f s, %.1f tokens/s\n",
          (long long)o->token_count, g->prompt_time,
          (double)o->token_count / g->prompt_time);
  if (added > 1)
    fprintf(stderr, "added: %lld tokens in %.3f s, %.1f tokens/s\n",
            (long long)added - 1, g->token_time,
            (double)(added - 1) / g->token_time);
  fprintf(stderr, "memory: %.0f MiB at most, %.1f MiB of it the cache",
          (double)used.ru_maxrss / 1024, (double)cache_bytes(g) / (1 << 20));
  if (!g->room)
    fprintf(stderr, ", which grows: the model appends to it\n");
  else if (g->moves)
    fprintf(stderr, ", which was copied %llu times in %llu updates\n",
            (unsigned long long)g->copies, (unsigned long long)g->moves);
  else
    fprintf(stderr, " on the device\n");
}

/* ---- the command ------------------------------------------------------------------------------ */

static bool read_number(const char *text, double least, double most,
                        double *out) {
  char *end = NULL;
  errno = 0;
  *out = strtod(text, &end);
  return end != text && !*end && !errno && *out >= least && *out <= most;
}

static bool read_tokens(const char *text, options *o) {
  double count = 0;
  free(o->tokens);
  o->tokens = NULL;
  if (*text == 'x' && read_number(text + 1, 1, TOKENS_MOST, &count)) {
    o->drawn = o->token_count = (int64_t)count;
    o->tokens = calloc((size_t)count, sizeof *o->tokens);
    return o->tokens != NULL;
  }
  o->tokens = malloc((strlen(text) + 1) * sizeof *o->tokens);
  o->token_count = o->drawn = 0;
  for (const char *at = text; o->tokens; at++) {
    char *end = NULL;
    errno = 0;
    long long token = strtoll(at, &end, 10);
    if (end == at || errno || token < 0 || (*end && *end != ',')) return false;
    o->tokens[o->token_count++] = token;
    at = end;
    if (!*at) return true;
  }
  return false;
}

static bool read_option(options *o, const char *name, const char *value) {
  double number = 0;
  const struct {
    const char *name;
    const char **text;
  } texts[] = {
      {"--device", &o->device}, {"--random", &o->random}, {"--save", &o->save}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (!strcmp(name, texts[i].name)) {
      *texts[i].text = value;
      return true;
    }
  if (!strcmp(name, "--option") && o->option_count < 8) {
    o->plugin_options[o->option_count++] = value;
    return true;
  }
  if (!strcmp(name, "--tokens")) return read_tokens(value, o);
  const bool positive = !strcmp(name, "--count") || !strcmp(name, "--threads");
  if (!read_number(value, positive, 1e15, &number)) return false;
  if (!strcmp(name, "--count") && number <= TOKENS_MOST)
    o->count = (int64_t)number;
  else if (!strcmp(name, "--end"))
    o->end = (int64_t)number;
  else if (!strcmp(name, "--seed"))
    o->how.state = (uint64_t)number;
  else if (!strcmp(name, "--threads") && number <= 1024)
    o->threads = (long)number;
  else if (!strcmp(name, "--temperature") && number > 0)
    o->how.temperature = (float)number;
  else if (!strcmp(name, "--top-p") && number > 0 && number <= 1)
    o->how.top_p = (float)number;
  else
    return false;
  return true;
}

static bool takes_value(const char *name) {
  static const char *const names[] = {"--tokens", "--count",       "--end",
                                      "--top-p",  "--temperature", "--seed",
                                      "--device", "--threads",     "--option",
                                      "--random", "--save"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(name, names[i])) return true;
  return false;
}

/* 0: go on; else the exit status plus one. */
static int read_options(int argc, char **argv, options *o) {
  for (int i = 1; i < argc; i++) {
    const char *name = argv[i];
    if (!strcmp(name, "--help")) {
      fputs(usage, stdout);
      return 1;
    }
    if (!strcmp(name, "--profile")) {
      o->profile = true;
    } else if (takes_value(name)) {
      if (i + 1 == argc || !read_option(o, name, argv[i + 1])) {
        fprintf(stderr, "generate: %s %s is not right; --help says what is\n",
                name, i + 1 == argc ? "(nothing)" : argv[i + 1]);
        return 3;
      }
      i++;
    } else if (*name == '-' || o->model) {
      fprintf(stderr, "generate: %s \"%s\"; --help lists what there is\n",
              *name == '-' ? "there is no option" : "one model only, not",
              name);
      return 3;
    } else {
      o->model = name;
    }
  }
  if (!o->model == !o->random || (o->save && !o->random)) {
    fprintf(stderr,
            "generate: name a model, or --random and its sizes; --save is for"
            " --random\n");
    return 3;
  }
  if (o->how.top_p > 0 && o->how.temperature <= 0) o->how.temperature = 1;
  if (o->how.top_p <= 0) o->how.top_p = 1;
  return 0;
}

static keel_status load(keel_context *context, options *o,
                        keel_program **out_program) {
  model_sizes sizes;
  if (o->model) return keel_program_load(context, o->model, out_program);
  if (!model_read_sizes(o->random, &sizes)) {
    told = true;
    return KD_INVALID_ARGUMENT;
  }
  if (sizes.places < o->token_count + o->count)
    sizes.places = o->token_count + o->count;
  o->vocabulary = sizes.vocab;
  fprintf(stderr, "making random weights ...\n");
  return model_build(context, &sizes, o->how.state, out_program);
}

/* Below `most`, which any vocabulary has. */
static void draw_tokens(options *o, int64_t most) {
  enum { DRAWN_MOST = 100 };
  sampling how = o->how;
  float even[DRAWN_MOST] = {0};
  how.temperature = how.top_p = 1;
  for (int64_t i = 0; i < o->drawn; i++)
    o->tokens[i] = sample(&how, even, most < DRAWN_MOST ? most : DRAWN_MOST);
}

/* What the model's logits say of its vocabulary; 0: they leave it open. */
static int64_t vocabulary_of(const generation *g) {
  if (g->options->vocabulary) return g->options->vocabulary;
  for (uint32_t i = 0; i < g->output_count; i++) {
    keel_port port;
    keel_plan_output(g->plan, i, &port);
    if (g->roles[g->input_count + i] == LOGITS && port.rank &&
        port.rank != KEEL_RANK_UNKNOWN && port.dims[port.rank - 1] > 0)
      return port.dims[port.rank - 1];
  }
  return 0;
}

/* A token that the model does not have is named here, not by the op that meets it. */
static bool check_tokens(const generation *g, options *o) {
  int64_t most = vocabulary_of(g);
  draw_tokens(o, most ? most : INT64_MAX);
  for (int64_t i = 0; most && i < o->token_count; i++)
    if (o->tokens[i] >= most) {
      fprintf(stderr,
              "generate: token %lld is not the model's, which has %lld;"
              " --tokens gives the text\n",
              (long long)o->tokens[i], (long long)most);
      return false;
    }
  return true;
}

static keel_status generate(keel_context *context, options *o) {
  keel_program *program = NULL;
  keel_plan_params params = {.struct_size = sizeof params};
  generation g = {.options = o, .context = context};
  keel_plan *plan = NULL;
  int64_t added = 0;
  keel_status status = keel_device_find(context, o->device, &params.device);
  g.device = params.device;
  if (status == KD_OK) status = load(context, o, &program);
  if (status == KD_OK && o->save) {
    status = keel_program_save(program, o->save, 0);
    keel_program_release(program);
    return status;
  }
  if (status == KD_OK) status = keel_plan_create(program, &params, &plan);
  /* the plan keeps of the weights what its kernels have no form of their own of */
  keel_program_release(program);
  if (status == KD_OK && !take_memory(&g, plan)) status = KD_OUT_OF_MEMORY;
  if (status == KD_OK && (!read_ports(&g) || !check_tokens(&g, o))) {
    told = true;
    status = KD_INVALID_ARGUMENT;
  }
  if (status == KD_OK) status = read_text(&g);
  if (status == KD_OK) status = add_tokens(&g, &added);
  if (status == KD_OK) print_facts(&g, added);
  if (status == KD_OK && o->profile) print_profile(plan);
  for (uint32_t i = 0; g.inputs && i < g.input_count; i++)
    keel_tensor_release(g.inputs[i]);
  free(g.roles);
  free(g.presents);
  free(g.donated);
  free(g.inputs);
  free(g.outputs);
  free(g.logits);
  keel_plan_release(plan);
  return status;
}

int main(int argc, char **argv) {
  options o = {.count = 64, .end = -1, .how = {.state = 1}};
  keel_context *context = NULL;
  bool read = read_tokens("1", &o);
  int ends = read ? read_options(argc, argv, &o) : 2;
  if (ends) {
    free(o.tokens);
    return ends - 1;
  }
  const keel_context_params how = {.struct_size = sizeof how,
                                   .options = o.plugin_options,
                                   .option_count = o.option_count,
                                   .workers = o.threads == 1 ? KEEL_NO_WORKERS
                                              : o.threads > 1
                                                  ? (int32_t)o.threads - 1
                                                  : 0};
  keel_status status = keel_open(&how, &context);
  if (status == KD_OK) status = generate(context, &o);
  if (status != KD_OK && !told)
    fprintf(stderr, "generate: %s\n",
            *keel_message() ? keel_message() : "no memory");
  keel_close(context);
  free(o.tokens);
  return status == KD_OK ? 0 : 1;
}
