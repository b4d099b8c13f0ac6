"""Runs inside Blender's own Python (`python blender_script.py jobs.json`), never imported by the package.

It builds CLEVR's base scene from numbers alone (no .blend files) and renders each job with Cycles on the
CPU. bpy 4.2.23, 4.5.15 and 5.0.1 drew the same two scenes within 0.4 dB of each other (against the fast
renderer). Every job is a dictionary of plain numbers; `blender.py` writes it.
"""

import functools
import json
import math
import os
import stat
import sys
import threading
import traceback

import bpy
import numpy as np
from mathutils import Vector

LAMPS = {  # edge, color, power in watts: pi times the area times the lamp's radiance (`shading.RADIANCE`)
    "key": (0.5, (1.0, 0.9323092, 0.8166636), 25 * math.pi),
    "fill": (0.5, (0.7616662, 0.8177196, 1.0), 7.5 * math.pi),
    "back": (1.0, (1.0, 1.0, 1.0), 12.5 * math.pi),
}
SUN_ROTATION, SUN_ANGLE, SUN_STRENGTH = (0.2360285, 0.4168804, 0.0970794), 2 * math.atan(0.1), 0.45


def add(name, data):
    """A new object in the scene."""
    thing = bpy.data.objects.new(name, data)
    bpy.context.scene.collection.objects.link(thing)
    return thing


def mesh(name, vertices, faces):
    """A smooth-shaded mesh with one material slot."""
    data = bpy.data.meshes.new(name)
    data.from_pydata(vertices, [], faces)
    data.polygons.foreach_set("use_smooth", [True] * len(faces))
    data.materials.append(None)
    data.update()
    return data


def revolved(profile, segments=96):
    """A closed surface from a profile [(rho, z), ...] whose ends lie on the axis."""
    inner = profile[1:-1]
    vertices = [(0, 0, profile[0][1])]
    for rho, z in inner:
        vertices += [
            (rho * math.cos(a), rho * math.sin(a), z) for a in np.arange(segments) * 2 * math.pi / segments
        ]
    vertices.append((0, 0, profile[-1][1]))

    def ring(i, j):
        return 1 + i * segments + j % segments

    faces = [(0, ring(0, j + 1), ring(0, j)) for j in range(segments)]
    for i in range(len(inner) - 1):
        faces += [(ring(i, j), ring(i, j + 1), ring(i + 1, j + 1), ring(i + 1, j)) for j in range(segments)]
    last = len(vertices) - 1
    faces += [(last, ring(len(inner) - 1, j), ring(len(inner) - 1, j + 1)) for j in range(segments)]
    return vertices, faces


@functools.cache
def solid(shape):
    """The mesh that all objects of a shape share, made once for all jobs."""
    return mesh(shape, *unit_mesh(shape))


def unit_mesh(shape):
    """Vertices and faces of a solid of radius 1. Raises ValueError for an unknown one."""
    if shape == "sphere":
        angles = np.linspace(0, math.pi, 65)
        return revolved([(0.9991 * math.sin(a), -0.9991 * math.cos(a)) for a in angles])
    if shape == "cylinder":  # rim: u^p + v^p = 1
        a = np.linspace(0, math.pi / 2, 17)
        power = 2 / 4.2
        rim = [(0.9 + 0.1 * math.cos(t) ** power, 0.9 + 0.1 * math.sin(t) ** power) for t in a[:-1]]
        upper = rim + [(r, 1.0) for r in (0.9, 0.8, 0.5)] + [(0.0, 1.0)]
        return revolved([(r, -z) for r, z in reversed(upper)] + upper)
    if shape != "cube":
        raise ValueError(f"no mesh for {shape!r}; there are sphere, cylinder, cube")
    bevel = 0.25 * np.linspace(0, 1, 13)
    edge = np.concatenate([-1 + bevel, [-0.6, -0.3, 0, 0.3, 0.6], 1 - bevel[::-1]])
    n, vertices, faces, seen = len(edge), [], [], {}
    for axis in range(3):
        for sign in (-1, 1):
            index = np.empty((n, n), int)
            for i, u in enumerate(edge):
                for j, v in enumerate(edge):
                    p = np.roll(np.array([sign, u, v]), axis)
                    inner = np.clip(p, -0.75, 0.75)
                    q = inner + 0.25 * (p - inner) / (np.abs(p - inner) ** 3).sum() ** (1 / 3)
                    key = tuple(np.round(q, 6))
                    index[i, j] = seen.setdefault(key, len(vertices))
                    if index[i, j] == len(vertices):
                        vertices.append(tuple(q))
            for i in range(n - 1):
                for j in range(n - 1):
                    face = (index[i, j], index[i + 1, j], index[i + 1, j + 1], index[i, j + 1])
                    faces.append(face if sign > 0 else face[::-1])
    return vertices, faces


def rubber(nodes, link, rgb, roughness):
    """mix(F(1.2), mix(F(1.4), diffuse, velvet), Beckmann gloss); CLEVR's roughness is 0.35."""
    diffuse, sheen = nodes.new("ShaderNodeBsdfDiffuse"), nodes.new("ShaderNodeBsdfSheen")
    gloss = nodes.new("ShaderNodeBsdfAnisotropic")
    sheen.distribution, gloss.distribution = "ASHIKHMIN", "BECKMANN"
    diffuse.inputs["Color"].default_value = sheen.inputs["Color"].default_value = rgb
    sheen.inputs["Roughness"].default_value = 0.6
    gloss.inputs["Color"].default_value = (0.8, 0.8, 0.8, 1)
    gloss.inputs["Roughness"].default_value = math.sqrt(roughness)
    return blend(
        nodes, link, 1.2, blend(nodes, link, 1.4, diffuse.outputs[0], sheen.outputs[0]), gloss.outputs[0]
    )


def blend(nodes, link, ior, first, second):
    """`second` over `first`, by the Fresnel reflectance of a coat."""
    fresnel, mix = nodes.new("ShaderNodeFresnel"), nodes.new("ShaderNodeMixShader")
    fresnel.inputs["IOR"].default_value = ior
    link(fresnel.outputs[0], mix.inputs[0])
    link(first, mix.inputs[1])
    link(second, mix.inputs[2])
    return mix.outputs[0]


def metal(nodes, link, rgb, roughness):
    """0.4 GGX(alpha roughness; CLEVR's is 0.2) + 0.6 GGX(alpha 0.01), anisotropy 0.25."""
    lobes = []
    for alpha in (roughness, 0.01):
        lobe = nodes.new("ShaderNodeBsdfAnisotropic")
        lobe.distribution = "GGX"
        lobe.inputs["Color"].default_value = rgb
        lobe.inputs["Roughness"].default_value = math.sqrt(alpha)
        lobe.inputs["Anisotropy"].default_value = 0.25
        lobes.append(lobe.outputs[0])
    mix = nodes.new("ShaderNodeMixShader")
    mix.inputs[0].default_value = 0.6
    link(lobes[0], mix.inputs[1])
    link(lobes[1], mix.inputs[2])
    return mix.outputs[0]


RECIPES = {"rubber": rubber, "metal": metal}


def material(name, build):
    """A new material whose nodes `build` makes."""
    m = bpy.data.materials.new(name)
    m.use_nodes = True
    nodes = m.node_tree.nodes
    nodes.clear()
    output = nodes.new("ShaderNodeOutputMaterial")
    m.node_tree.links.new(build(nodes, m.node_tree.links.new), output.inputs["Surface"])
    return m


def paint(thing, look):
    """Give one object a material; other objects may share its mesh."""
    slot = thing.material_slots[0]
    slot.link, slot.material = "OBJECT", look


def emission(rgb):
    """What `material` takes for a flat color that needs no light."""

    def build(nodes, link):
        node = nodes.new("ShaderNodeEmission")
        node.inputs["Color"].default_value = (*rgb, 1)
        return node.outputs[0]

    return build


def matte(nodes, link):
    """The floor's diffuse gray."""
    node = nodes.new("ShaderNodeBsdfDiffuse")
    node.inputs["Color"].default_value = (0.8, 0.8, 0.8, 1)
    return node.outputs[0]


@functools.cache
def floor(line):
    """The swept cyclorama; `line` is its profile [(s, z), ...], constant across."""
    ax, ay = -0.9032076597, 0.4292037785  # `tracer.FLOOR_S` and FLOOR_LATERAL, which Blender cannot import
    across = np.linspace(-29.9, 26.6, 9)
    vertices = [(ax * s - ay * l, ay * s + ax * l, z) for s, z in line for l in across]
    n = len(across)
    corners = [i * n + j for i in range(len(line) - 1) for j in range(n - 1)]
    faces = [(k, k + 1, k + n + 1, k + n) for k in corners]
    return mesh("floor", vertices, faces)


def clear():
    """Remove the last job's scene but keep the shared meshes. (A new file per job would cost a tenth of a
    small image's time.)
    """
    data = bpy.data
    data.batch_remove([*data.objects, *data.materials, *data.lights, *data.cameras])


def build(job):
    """Replace the last job's scene by this one's; return its objects and the floor."""
    clear()
    scene = bpy.context.scene
    things = []
    for o in job["objects"]:
        thing = add(o["shape"], solid(o["shape"]))
        thing.scale = [o["radius"] * stretch for stretch in o["stretch"]]
        thing.location = o["location"]
        thing.rotation_euler = (0, 0, o["rotation"])
        recipe = functools.partial(RECIPES[o["material"]], rgb=(*o["rgb"], 1), roughness=o["roughness"])
        paint(thing, material("object", recipe))
        things.append(thing)
    ground = add("floor", floor(tuple(map(tuple, job["floor"]))))
    paint(ground, material("floor", matte))
    for name, location in job["lamps"].items():
        edge, color, power = LAMPS[name]
        light = bpy.data.lights.new(name, "AREA")
        light.shape, light.size, light.color, light.energy = "SQUARE", edge, color, power
        lamp = add(name, light)
        lamp.location = location
        lamp.rotation_euler = (-Vector(location)).to_track_quat("-Z", "Y").to_euler()
        lamp.visible_camera = False
    light = bpy.data.lights.new("sun", "SUN")
    light.energy, light.angle = SUN_STRENGTH, SUN_ANGLE
    sun = add("sun", light)
    sun.rotation_euler = SUN_ROTATION
    camera = add("camera", bpy.data.cameras.new("camera"))
    camera.location = job["camera"]
    view = Vector(job["target"]) - Vector(job["camera"])
    camera.rotation_euler = view.to_track_quat("-Z", "Y").to_euler()
    camera.data.sensor_fit = "HORIZONTAL"
    camera.data.sensor_width, camera.data.lens = 32.0, 32.0 * job["focal"][0]
    scene.camera = camera
    # an image with different focal lengths for its width and height (squash) has non-square pixels;
    # Blender takes no aspect below 1
    (width, height), (fx, fy) = job["size"], job["focal"]
    wide = (fy * height) / (fx * width)
    scene.render.pixel_aspect_x, scene.render.pixel_aspect_y = max(wide, 1.0), max(1 / wide, 1.0)
    return things, ground


def settings(job):
    """Set Cycles, the size of the image and its colors as CLEVR has them."""
    scene = bpy.context.scene
    scene.render.engine = "CYCLES"
    cycles = scene.cycles
    cycles.device, cycles.samples, cycles.seed = "CPU", job["samples"], 0
    cycles.use_adaptive_sampling = False
    cycles.use_denoising = job["denoise"]
    if job["denoise"]:
        cycles.denoiser, cycles.denoising_prefilter = "OPENIMAGEDENOISE", job["prefilter"]
    cycles.max_bounces, cycles.diffuse_bounces, cycles.glossy_bounces = 12, 4, 4
    cycles.transparent_max_bounces, cycles.transmission_bounces = 8, 12
    cycles.blur_glossy, cycles.sample_clamp_indirect = 2.0, 0.0
    cycles.pixel_filter_type, cycles.filter_width = "BLACKMAN_HARRIS", 1.5
    render = scene.render
    render.resolution_x, render.resolution_y = job["size"]
    render.resolution_percentage, render.dither_intensity = 100, 0.0
    render.threads_mode, render.threads = "FIXED", job["threads"]
    render.image_settings.file_format, render.image_settings.color_mode = "PNG", "RGB"
    scene.view_settings.view_transform, scene.view_settings.look = "Standard", "None"


def render(path):
    """Render the scene as it is into a file."""
    bpy.context.scene.render.filepath = path
    bpy.ops.render.render(write_still=True)


def render_masks(things, ground, path):
    """Object k emits gray (k + 1) / 255 on black, with one sample at each pixel center."""
    scene = bpy.context.scene
    scene.cycles.samples, scene.cycles.use_denoising, scene.cycles.filter_width = 1, False, 0.01
    scene.view_settings.view_transform = "Raw"
    ground.hide_render = True
    for k, thing in enumerate(things):
        paint(thing, material("mask", emission([(k + 1) / 255] * 3)))
    render(path)


def end_with_parent():
    """Exit when the parent ends: it never writes to our standard input, which then closes."""
    os.read(0, 1)
    os._exit(1)


def main():
    """Render all jobs of the file that the command line names."""
    if stat.S_ISFIFO(os.fstat(0).st_mode):
        threading.Thread(target=end_with_parent, daemon=True).start()
    with open(sys.argv[1]) as file:
        jobs = json.load(file)
    bpy.ops.wm.read_factory_settings(use_empty=True)
    world = bpy.context.scene.world = bpy.data.worlds.new("black")
    world.use_nodes = True
    world.node_tree.nodes["Background"].inputs["Strength"].default_value = 0.0
    for job in jobs:
        things, ground = build(job)
        settings(job)
        render(job["image"])
        if job.get("masks"):
            render_masks(things, ground, job["masks"])


if __name__ == "__main__":
    status = 1
    try:
        main()
        status = 0
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(status)  # Blender's normal exit can wait forever for one of its threads
