#include "experiments/lab/descriptor/forms.h"

namespace normlab {

void Form<ClassGroups>::read(FieldReader& in, const JsonNode& node, ClassGroups& out, Range) {
  if (!node.is_object()) return in.report(node.at, "expected an object {\"name\": [classes]}, got " + describe(node));
  out.clear();
  for (const JsonMember& member : node.members) {
    std::vector<std::string>& members = out.emplace_back(member.key, std::vector<std::string>()).second;
    in.value(member.value, members);
    if (member.value.is_array() && members.empty()) in.report(member.value.at, "name at least one class");
  }
  std::sort(out.begin(), out.end());
}

JsonNode Form<ClassGroups>::write(const ClassGroups& groups, WriteOptions options) {
  JsonNode object = json_object();
  for (const auto& [name, members] : groups) object.add(name, Form<std::vector<std::string>>::write(members, options));
  return object;
}

JsonNode Form<ClassGroups>::schema(Range) {
  JsonNode members = list_of(type("string"));
  members.add("minItems", 1);
  return object({{"type", "object"}, {"additionalProperties", std::move(members)}});
}

void Form<DatasetConfig>::read(FieldReader& in, const JsonNode& node, DatasetConfig& out, Range) {
  const JsonMember* directory = nullptr;
  if (node.is_string()) {
    out.name = node.text;
  } else {
    directory = node.find("path");
    // A dataset given only by its folder is named after it.
    if (directory != nullptr && node.find("name") == nullptr && directory->value.is_string())
      out.name = directory->value.text;
    in.object(node, out);
  }
  if (out.path == out.name) out.path.clear();
  if (out.name.empty()) in.report(node.at, "a dataset needs a name or a path");
  if (out.layout != DatasetLayout::known || find_dataset(out.name) != nullptr) return;
  const JsonMember* name = node.find("name");
  const JsonMember* at = name != nullptr ? name : directory;
  in.report(at != nullptr ? at->value.at : node.at,
            unknown_word("dataset", out.name, names_of(kKnownDatasets)) +
                "; for a data set of your own give \"path\" and \"layout\" (image_folder, webdataset, ...)");
}

void Form<StartFrom>::read(FieldReader& in, const JsonNode& node, StartFrom& out, Range) {
  in.object(node, out, {"row", "seed"});
  if (!node.is_object()) return;
  if (const JsonMember* row = node.find("row")) {
    out.row = row->value;
    if (!row->value.is_object())
      in.report(row->value.at, "expected an object {axis: value}, got " + describe(row->value));
  }
  if (const JsonMember* seed = node.find("seed")) in.value(seed->value, out.seed);
}

void Form<StartConfig>::read(FieldReader& in, const JsonNode& node, StartConfig& out, Range) {
  if (in.mode() == ReadMode::canonical) return void(in.object(node, out));
  if (node.kind == JsonKind::null) return;
  StartKeys keys;
  if (node.is_string())
    keys.file = node.text;
  else
    in.object(node, keys);
  const auto given = [&](const char* key) { return node.is_object() ? node.find(key) : nullptr; };
  static_cast<StartRule&>(out) = keys;
  const JsonMember* const path = given("file");
  out.at = path != nullptr ? path->value.at : node.at;
  out.file = keys.file;
  out.sha256 = keys.sha256;
  const JsonMember* const from = given("from");
  if (from != nullptr) {
    out.from = keys.from;
    const JsonMember* const descriptor = from->value.find("descriptor");
    out.at = descriptor == nullptr ? from->value.at : descriptor->value.at;
  }
  if (const JsonMember* const hash = given("sha256")) {
    if (from != nullptr) in.report(hash->value.at, "only a file has a \"sha256\"");
    const bool hex = keys.sha256.find_first_not_of("0123456789abcdef") == keys.sha256.npos;
    if (hash->value.is_string() && (keys.sha256.size() != 64 || !hex))
      in.report(hash->value.at,
                concat("expected a SHA-256, 64 digits from 0 to 9 and a to f, got ", describe(hash->value)));
  }
  if (from != nullptr && keys.names != StartNames::stated)
    in.report(node.at, "only a file has \"names\"; a trial's weights have those of normlab");
}

JsonNode Form<StartConfig>::schema(Range) {
  JsonNode keys = rows_schema<StartKeys>();
  keys.find("properties")->value.find("sha256")->value.add("pattern", "^[0-9a-f]{64}$");
  return if_type("object", std::move(keys), any_of({type("null"), type("string")}));
}

}  // namespace normlab
