// Stands before protobuf's own header in builds for the thread sanitizer. That
// one gives maps two more members there, for reports, which the library of the
// distribution, built without the sanitizer, knows nothing of: both would see
// the fields of one object in different places.
#pragma push_macro("__SANITIZE_THREAD__")
#undef __SANITIZE_THREAD__
#include_next <google/protobuf/map_field.h>
#pragma pop_macro("__SANITIZE_THREAD__")
