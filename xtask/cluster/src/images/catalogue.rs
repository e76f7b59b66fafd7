//! The images.

/// An image: a folder of `images/`, and what is laid beside its Dockerfile.
pub(crate) struct Image {
    /// As people name it, and the name of its archive.
    pub(super) name: &'static str,
    /// The folder, and the repository.
    pub(super) folder: &'static str,
    /// The stage of the Dockerfile, which also ends the tag.
    pub(super) stage: Option<&'static str>,
    pub(super) program: Option<Program>,
    pub(super) fetched: &'static [Fetched],
    /// Else it is for tests.
    pub(super) is_released: bool,
}

/// A program of the workspace.
pub(super) struct Program {
    pub(super) package: &'static str,
    pub(super) name: &'static str,
}

/// A program of others that Debian does not have, or not as new.
#[derive(Clone, Copy)]
pub(super) enum Fetched {
    Uv,
    Node,
}

pub(super) const APP: Program = Program { package: "famulus-server", name: "famulus" };
const RUNNER: Program = Program { package: "famulus-runner", name: "famulus-runner" };

const SIGNAL: Program =
    Program { package: "famulus-scripted-signal", name: "famulus-scripted-signal" };

pub(super) static IMAGES: [Image; 8] = [
    Image { program: Some(APP), ..Image::new("app", "app") },
    Image {
        program: Some(Program { package: "famulus-operator", name: "famulus-operator" }),
        ..Image::new("operator", "operator")
    },
    Image {
        stage: Some("slim"),
        program: Some(RUNNER),
        fetched: &[Fetched::Uv],
        ..Image::new("runner-slim", "runner")
    },
    Image {
        stage: Some("full"),
        program: Some(RUNNER),
        fetched: &[Fetched::Uv, Fetched::Node],
        ..Image::new("runner-full", "runner")
    },
    Image::new("postgres", "postgres"),
    Image { stage: Some("backup"), program: Some(APP), ..Image::new("backup", "postgres") },
    Image::new("resolver", "resolver"),
    Image {
        program: Some(SIGNAL),
        is_released: false,
        ..Image::new("scripted-signal", "scripted-signal")
    },
];

/// Where images are that were built here; the chart's default.
const REGISTRY: &str = "localhost/famulus";

const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Image {
    const fn new(name: &'static str, folder: &'static str) -> Self {
        Self { name, folder, stage: None, program: None, fetched: &[], is_released: true }
    }

    pub(super) fn parse(name: &str) -> Result<&'static Self, String> {
        IMAGES.iter().find(|image| image.name == name).ok_or_else(|| {
            let names: Vec<&str> = IMAGES.iter().map(|image| image.name).collect();
            format!("there is no image of that name; there are {}", names.join(", "))
        })
    }

    /// The name under which a cluster finds it.
    pub(super) fn reference(&self) -> String {
        let stage = self.stage.map(|stage| format!("-{stage}")).unwrap_or_default();
        format!("{REGISTRY}/{}:{VERSION}{stage}", self.folder)
    }

    /// What the Dockerfile is told, as `docker build` and `buildah build` take it.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![format!("--build-arg=VERSION={VERSION}")];
        arguments.extend(self.stage.map(|stage| format!("--target={stage}")));
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_ends_the_tag() {
        let check = |name, expected: &str| {
            assert_eq!(Image::parse(name).unwrap().reference(), expected);
        };
        check("app", &format!("localhost/famulus/app:{VERSION}"));
        check("runner-slim", &format!("localhost/famulus/runner:{VERSION}-slim"));
        check("postgres", &format!("localhost/famulus/postgres:{VERSION}"));
        check("backup", &format!("localhost/famulus/postgres:{VERSION}-backup"));
        assert!(Image::parse("runner").is_err());
    }

    #[test]
    fn every_image_has_its_dockerfile_and_its_stage() {
        for image in &IMAGES {
            let file = xtask_shell::workspace::root().join("images").join(image.folder);
            let text = std::fs::read_to_string(file.join("Dockerfile")).unwrap();
            if let Some(stage) = image.stage {
                assert!(text.contains(&format!(" AS {stage}\n")), "{}", image.name);
            }
            if let Some(program) = &image.program {
                assert!(text.contains(&format!("COPY {} /usr/local/bin/", program.name)));
            }
        }
    }
}
