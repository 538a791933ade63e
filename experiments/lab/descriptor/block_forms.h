// The forms of blocks that describe the experiment and no trial, read in ReadMode::block.
#pragma once

#include "experiments/lab/descriptor/draws.h"
#include "experiments/lab/descriptor/external_numbers.h"
#include "experiments/lab/descriptor/form.h"
#include "experiments/lab/descriptor/leave_one_out.h"
#include "experiments/lab/descriptor/printed_numbers.h"
#include "experiments/lab/descriptor/probes.h"
#include "experiments/lab/descriptor/tested_claim.h"

namespace normlab {

template <>
struct Form<std::vector<ProbeStep>> : ValueForm {
  static void read(FieldReader& in, const JsonNode& node, std::vector<ProbeStep>& out, Range);
  static JsonNode schema(Range) {
    JsonNode steps = list_of(Form<std::uint64_t>::schema({}));
    steps.add("uniqueItems", true);
    return steps;
  }
};

/// A list of steps, a number n for every n-th step, or an object of both.
template <>
struct Form<ProbeSteps> : ObjectForm<ProbeSteps> {
  static void read(FieldReader& in, const JsonNode& node, ProbeSteps& out, Range);
  static JsonNode schema(Range range) {
    const JsonNode steps = Form<std::vector<ProbeStep>>::schema(range), one = Form<std::uint64_t>::schema(kFromOne);
    const JsonNode parts = closed_object(object({{"at", steps}, {"every", one}, {"last", one}}));
    return if_type("array", steps, if_type("object", parts, one));
  }
};

template <>
struct Form<ProbeConfig> : ObjectForm<ProbeConfig> {
  static void read(FieldReader& in, const JsonNode& node, ProbeConfig& out, Range);
};

template <>
struct Form<JsonText> : ValueForm {
  static void read(FieldReader&, const JsonNode& node, JsonText& out, Range) { out = {value_text(node)}; }
  static JsonNode schema(Range) { return json_object(); }
};

template <>
struct Form<Deviation> : ObjectForm<Deviation> {
  static void read(FieldReader& in, const JsonNode& node, Deviation& out, Range);
};

template <>
struct Form<PaperConfig> : ObjectForm<PaperConfig> {
  static void read(FieldReader& in, const JsonNode& node, PaperConfig& out, Range);
};

/// Words, or an object with "cells": pairs of a baseline and a value, of which the difference or the ratio is printed,
/// or with "as": "value" single numbers.
template <>
struct Form<PrintedFigures> : ValueForm {
  static void read(FieldReader& in, const JsonNode& node, PrintedFigures& out, Range);
  static JsonNode schema(Range) {
    const JsonNode number = type("number");
    const JsonNode cells =
        object({{"type", "object"}, {"additionalProperties", if_type("array", pair_of(number), number)}});
    JsonNode figures = rows_schema<PrintedFigures>(object({{"cells", cells}}));
    figures.find("required")->value.items.push_back("cells");
    return if_type("object", std::move(figures), Form<std::string>::schema(kNotEmpty));
  }
};

/// With "range" or "outside".
template <>
struct Form<ClaimTest> : ObjectForm<ClaimTest> {
  static void read(FieldReader& in, const JsonNode& node, ClaimTest& out, Range);
  static JsonNode schema(Range) {
    const JsonNode bounds = pair_of(object({{"type", list_of_words({"number", "null"})}}));
    return rows_schema<ClaimTest>(object({{"range", bounds}, {"outside", bounds}}));
  }
};

template <>
struct Form<TestedClaim> : ObjectForm<TestedClaim> {
  static void read(FieldReader& in, const JsonNode& node, TestedClaim& out, Range);
};

/// A number with the digits that are written.
template <>
struct Form<PrintedPercent> : ValueForm {
  static void read(FieldReader& in, const JsonNode& node, PrintedPercent& out, Range);
  static JsonNode schema(Range) { return number_schema("number", kPrintedPercent); }
};

template <>
struct Form<CommitName> : ValueForm {
  static void read(FieldReader& in, const JsonNode& node, CommitName& out, Range);
  static JsonNode schema(Range) { return object({{"type", "string"}, {"pattern", "^[0-9a-f]{7,40}$"}}); }
};

template <>
struct Form<PrintedNumber> : ObjectForm<PrintedNumber> {
  static void read(FieldReader& in, const JsonNode& node, PrintedNumber& out, Range);
};

template <>
struct Form<PrintedNumbers> : ObjectForm<PrintedNumbers> {
  static void read(FieldReader& in, const JsonNode& node, PrintedNumbers& out, Range);
};

template <>
struct Form<Draw> : ObjectForm<Draw> {
  static JsonNode schema(Range);
};

template <>
struct Form<WholePlacement> : ValueForm {
  static void read(FieldReader&, const JsonNode& node, WholePlacement& out, Range) { out = {node}; }
  static JsonNode schema(Range) { return reference("placement"); }
};

template <>
struct Form<LeftOutFeature> : ValueForm {
  static void read(FieldReader& in, const JsonNode& node, LeftOutFeature& out, Range);
  static JsonNode schema(Range) {
    JsonNode named = closed_object(object({{"name", type("string")}, {"set", reference("choice")}}));
    named.add("required", list_of_words({"name", "set"}));
    return if_type("object", std::move(named), type("string"));
  }
};

}  // namespace normlab
