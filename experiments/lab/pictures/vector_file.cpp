#include "experiments/lab/pictures/vector_file.h"

#include <cmath>
#include <memory>

#include "core/error.h"
#include "core/library.h"

namespace normlab {
namespace {

// As their headers declare them, which the build does without.
struct RsvgRectangle {
  double x, y, width, height;
};
struct GError {
  std::uint32_t domain;
  int code;
  const char* message;
};
using Append = int (*)(void* to, const unsigned char* data, unsigned length);
constexpr int kArgb32 = 0, kCreationDate = 5;

/// librsvg, and cairo, on which it depends.
struct Renderer {
  void* (*read)(const std::uint8_t* data, std::size_t size, GError** error);
  int (*render)(void* handle, void* context, const RsvgRectangle* viewport, GError** error);
  void (*release)(void* handle);
  void* (*pdf)(Append append, void* to, double width, double height);
  void (*set_metadata)(void* surface, int what, const char* text);
  void* (*image)(int format, int width, int height);
  int (*write_png)(void* surface, Append append, void* to);
  void* (*context)(void* surface);
  void (*drop_context)(void* context);
  void (*finish)(void* surface);
  int (*status)(void* surface);
  void (*drop)(void* surface);
  const char* (*words)(int status);

  Renderer() {
    const Library library("--format: librsvg", "librsvg-2.so.2",
                          "install it: apt-get install librsvg2-2; or leave --format out, which writes SVG");
    library.find("rsvg_handle_new_from_data", read);
    library.find("rsvg_handle_render_document", render);
    library.find("g_object_unref", release);
    library.find("cairo_pdf_surface_create_for_stream", pdf);
    library.find("cairo_pdf_surface_set_metadata", set_metadata);
    library.find("cairo_image_surface_create", image);
    library.find("cairo_surface_write_to_png_stream", write_png);
    library.find("cairo_create", context);
    library.find("cairo_destroy", drop_context);
    library.find("cairo_surface_finish", finish);
    library.find("cairo_surface_status", status);
    library.find("cairo_surface_destroy", drop);
    library.find("cairo_status_to_string", words);
  }
};

int append(void* to, const unsigned char* data, unsigned length) {
  static_cast<std::string*>(to)->append(reinterpret_cast<const char*>(data), length);
  return 0;
}

}  // namespace

std::string picture_bytes(const PictureFile& picture, PictureFormat format) {
  if (format == PictureFormat::svg) return picture.svg;
  static const Renderer r;
  const auto require = [&](bool fine, const char* why) {
    if (!fine) throw EnvironmentError(concat("--format: librsvg cannot draw ", picture.name, ": ", why));
  };
  const bool pdf = format == PictureFormat::pdf;
  const double scale = (pdf ? 72.0 : 300.0) / 96;
  const double width = pdf ? scale * picture.width : std::ceil(scale * picture.width),
               height = pdf ? scale * picture.height : std::ceil(scale * picture.height);
  std::string bytes;
  using Owned = std::unique_ptr<void, void (*)(void*)>;
  GError* error = nullptr;
  const Owned handle(r.read(reinterpret_cast<const std::uint8_t*>(picture.svg.data()), picture.svg.size(), &error),
                     r.release);
  require(handle != nullptr, error ? error->message : "unreadable");
  const Owned surface(pdf ? r.pdf(append, &bytes, width, height) : r.image(kArgb32, int(width), int(height)), r.drop);
  if (pdf) r.set_metadata(surface.get(), kCreationDate, "");  // equal pictures are equal files
  const RsvgRectangle whole{0, 0, width, height};
  const Owned context(r.context(surface.get()), r.drop_context);
  require(r.render(handle.get(), context.get(), &whole, &error), error ? error->message : "unknown");
  if (pdf)
    r.finish(surface.get());
  else
    r.write_png(surface.get(), append, &bytes);
  require(r.status(surface.get()) == 0, r.words(r.status(surface.get())));
  return bytes;
}

}  // namespace normlab
