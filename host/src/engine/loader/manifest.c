/* manifest.c - reads NAME.json, which describes a plugin without loading it:
 *
 *   { "library": "libacme.so", "name": "acme", "vendor": "Acme Corp",
 *     "version": "1.4.2", "abi": "0.9", "options": { "queue": "4" } }
 *
 * Only "library" is needed; a relative path starts at the manifest's folder. */
#include <unistd.h>

#include "loader/loader.h"

#ifdef KEEL_WITH_CJSON
#include "system/json.h"

#define MANIFEST_MOST (UINT64_C(1) << 20)

static void manifest_refuse(keel_arena *arena, keel_candidate *candidate,
                            keel_status status, const char *hint) {
  candidate->status = status;
  candidate->reason = keel_arena_copy(arena, keel_message());
  candidate->hint = hint;
}

/* The string of that name, NULL where there is none; false: another type. */
static bool manifest_get(keel_arena *arena, const cJSON *root, const char *path,
                         const char *name, const char **out_value) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, name);
  if (!item) return true;
  if (!cJSON_IsString(item) || !item->valuestring[0]) {
    keel_fail(KD_INVALID_ARGUMENT, "%s: \"%s\" is not a string with text", path,
              name);
    return false;
  }
  *out_value = keel_arena_copy(arena, item->valuestring);
  return *out_value != NULL;
}

static bool get_abi(const cJSON *root, const char *path, uint32_t *out_abi) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, "abi");
  unsigned major = 0, minor = 0;
  char rest = 0;
  if (!item) return true;
  if (!cJSON_IsString(item) ||
      /* five digits can't overflow */
      sscanf(item->valuestring, "%5u.%5u%c", /* NOLINT(cert-err34-c) */
             &major, &minor, &rest) != 2) {
    keel_fail(KD_INVALID_ARGUMENT, "%s: \"abi\" does not have the form \"0.9\"",
              path);
    return false;
  }
  *out_abi = KD_VERSION(major, minor);
  return true;
}

static bool get_options(keel_arena *arena, const cJSON *root, const char *path,
                        keel_candidate *candidate) {
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "options");
  if (!list) return true;
  if (!cJSON_IsObject(list)) {
    keel_fail(KD_INVALID_ARGUMENT, "%s: \"options\" is not an object", path);
    return false;
  }
  size_t count = (size_t)cJSON_GetArraySize(list);
  candidate->options = keel_arena_take(arena, (2 * count + 1) * sizeof(char *));
  if (!candidate->options) return false;
  const cJSON *item = NULL;
  cJSON_ArrayForEach(item, list) {
    if (!cJSON_IsString(item)) {
      keel_fail(KD_INVALID_ARGUMENT, "%s: option \"%s\" is not a string", path,
                item->string);
      return false;
    }
    candidate->options[2 * candidate->option_count] =
        keel_arena_copy(arena, item->string);
    candidate->options[2 * candidate->option_count + 1] =
        keel_arena_copy(arena, item->valuestring);
    candidate->option_count++;
  }
  return true;
}

static bool read_fields(keel_arena *arena, const cJSON *root, const char *path,
                        keel_candidate *candidate) {
  const char *library = NULL;
  if (!cJSON_IsObject(root)) {
    keel_fail(KD_INVALID_ARGUMENT, "%s: is not a JSON object", path);
    return false;
  }
  if (!manifest_get(arena, root, path, "library", &library) ||
      !manifest_get(arena, root, path, "name", &candidate->name) ||
      !manifest_get(arena, root, path, "vendor", &candidate->vendor) ||
      !manifest_get(arena, root, path, "version", &candidate->version) ||
      !get_abi(root, path, &candidate->abi_version) ||
      !get_options(arena, root, path, candidate))
    return false;
  if (!library) {
    keel_fail(KD_INVALID_ARGUMENT, "%s: has no \"library\"", path);
    return false;
  }
  keel_text full = {0};
  const char *slash = strrchr(path, '/');
  if (library[0] != '/' && slash)
    keel_text_add(&full, "%.*s/", (int)(slash - path), path);
  keel_text_add(&full, "%s", library);
  candidate->path = keel_arena_copy(arena, keel_text_get(&full));
  keel_text_free(&full);
  if (access(candidate->path, F_OK) != 0) {
    keel_fail(KD_NOT_FOUND, "%s: names the library %s, which is not there",
              path, candidate->path);
    return false;
  }
  return true;
}

/* The place of the first byte that would be read as another text than it is; else -1. */
static int64_t find_zero(const keel_file *file) {
  const char *text = (const char *)file->data;
  for (uint64_t i = 0; i < file->size; i++) {
    bool escape = text[i] == '\\' && i + 1 < file->size;
    if (!text[i] ||
        (escape && file->size - i >= 6 && !memcmp(text + i, "\\u0000", 6)))
      return (int64_t)i;
    i += escape;
  }
  return -1;
}

/* Whether nothing but space follows the object. */
static bool is_all(const keel_file *file, const char *end) {
  const char *last = (const char *)file->data + file->size;
  while (end < last && strchr(" \t\r\n", *end))
    end++;
  return end == last;
}

static keel_status manifest_parse(keel_arena *arena, const char *path,
                                  keel_candidate *candidate) {
  keel_file file = {0};
  if (!keel_json())
    return keel_fail(
        KD_UNAVAILABLE,
        "%s: manifests are read by cJSON, and there is no " KEEL_JSON_LIBRARY
        " that has what Keel calls; install libcjson1",
        path);
  KEEL_TRY(keel_file_open(path, &file));
  keel_status status = KD_OK;
  if (file.size > MANIFEST_MOST) {
    status = keel_fail(KD_INVALID_ARGUMENT,
                       "%s: has %llu bytes; a manifest has"
                       " at most %llu",
                       path, (unsigned long long)file.size,
                       (unsigned long long)MANIFEST_MOST);
  } else if (find_zero(&file) >= 0) {
    status =
        keel_fail(KD_INVALID_ARGUMENT, "%s: has a zero character at byte %lld",
                  path, (long long)find_zero(&file));
  } else {
    const char *end = NULL;
    cJSON *root = cJSON_ParseWithLengthOpts((const char *)file.data, file.size,
                                            &end, false);
    if (!root)
      status = keel_fail(
          KD_INVALID_ARGUMENT, "%s: is not JSON, from byte %lld on", path,
          end && file.data ? (long long)(end - (const char *)file.data) : 0LL);
    else if (!is_all(&file, end))
      status = keel_fail(KD_INVALID_ARGUMENT,
                         "%s: has text behind its object, from byte %lld on",
                         path, (long long)(end - (const char *)file.data));
    else if (!read_fields(arena, root, path, candidate))
      status = KD_INVALID_ARGUMENT;
    cJSON_Delete(root);
  }
  keel_file_close(&file);
  return status;
}

void keel_manifest_read(keel_arena *arena, const char *path,
                        keel_candidate *candidate) {
  candidate->path = keel_arena_copy(arena, path);
  keel_status status = manifest_parse(arena, path, candidate);
  if (status != KD_OK)
    manifest_refuse(arena, candidate, status,
                    "correct the manifest, or remove it");
}

#else /* without cJSON */

void keel_manifest_read(keel_arena *arena, const char *path,
                        keel_candidate *candidate) {
  candidate->path = keel_arena_copy(arena, path);
  candidate->status = KD_UNIMPLEMENTED;
  candidate->reason = "this Keel was built without cJSON and reads no manifest";
  candidate->hint = "name the library in KEEL_PLUGIN_PATH";
}

#endif
