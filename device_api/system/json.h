/* json.h - cJSON, opened when it is first needed (system/imported.h). */
#ifndef KEEL_JSON_H
#define KEEL_JSON_H

#include <cjson/cJSON.h>

#include "system/imported.h"

#define KEEL_JSON_FUNCTIONS(X)        \
  X(cJSON_Delete)                     \
  X(cJSON_GetArrayItem)               \
  X(cJSON_GetArraySize)               \
  X(cJSON_GetNumberValue)             \
  X(cJSON_GetObjectItem)              \
  X(cJSON_GetObjectItemCaseSensitive) \
  X(cJSON_GetStringValue)             \
  X(cJSON_IsArray)                    \
  X(cJSON_IsNumber)                   \
  X(cJSON_IsObject)                   \
  X(cJSON_IsString) X(cJSON_IsTrue) X(cJSON_Parse) X(cJSON_ParseWithLengthOpts)

typedef struct keel_json_functions {
  KEEL_JSON_FUNCTIONS(KEEL_IMPORTED_FIELD)
} keel_json_functions;

#define KEEL_JSON_LIBRARY "libcjson.so.1"

/* cJSON's functions; NULL where there is no cJSON. Any thread. */
const keel_json_functions *keel_json(void);

/* For those that have seen that it is not NULL.
 * NOLINTBEGIN(readability-identifier-naming): the names are the library's */
#define cJSON_Delete         keel_json()->cJSON_Delete
#define cJSON_GetArrayItem   keel_json()->cJSON_GetArrayItem
#define cJSON_GetArraySize   keel_json()->cJSON_GetArraySize
#define cJSON_GetNumberValue keel_json()->cJSON_GetNumberValue
#define cJSON_GetObjectItem  keel_json()->cJSON_GetObjectItem
#define cJSON_GetObjectItemCaseSensitive \
  keel_json()->cJSON_GetObjectItemCaseSensitive
#define cJSON_GetStringValue      keel_json()->cJSON_GetStringValue
#define cJSON_IsArray             keel_json()->cJSON_IsArray
#define cJSON_IsNumber            keel_json()->cJSON_IsNumber
#define cJSON_IsObject            keel_json()->cJSON_IsObject
#define cJSON_IsString            keel_json()->cJSON_IsString
#define cJSON_IsTrue              keel_json()->cJSON_IsTrue
#define cJSON_Parse               keel_json()->cJSON_Parse
#define cJSON_ParseWithLengthOpts keel_json()->cJSON_ParseWithLengthOpts
/* NOLINTEND(readability-identifier-naming) */

#endif /* KEEL_JSON_H */
